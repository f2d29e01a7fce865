/**
 * The store of a world, as a process reaches it: over a way that takes time, to a database that is a process of its own. What has
 * been sent takes effect whatever becomes of its sender.
 */

import * as Cause from "effect/Cause"
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import * as VersionedStore from "../../store/VersionedStore.ts"
import * as machine from "./machine.ts"

/**
 * The failures of a store.
 *
 * @category options
 * @since 0.1.0
 */
export interface StoreFaults {
  /** The shortest and the longest way of an operation to the store, and back, in milliseconds; default `[0, 6]`. */
  readonly latency?: readonly [number, number] | undefined
  /** The probability that an operation fails with `Unavailable`: one half of them takes effect before; default 0.01. */
  readonly failures?: number | undefined
  /** The probability that another writer writes the same value just before a conditional write; default 0. */
  readonly conflicts?: number | undefined
  /** The longest age of the keys of a `list` when they arrive, in milliseconds; default 50. */
  readonly staleness?: number | undefined
  /** True where the store knows which processes live, as SQLite and PostgreSQL do; the default draws it in each world. */
  readonly knowsProcesses?: boolean | undefined
}

const letters = "0123456789abcdefghijklmnopqrstuvwxyz"

/** The name of a process in a store. */
const nameOf = ({ number }: machine.Process): string => number.toString(36).padStart(16, letters.charAt(10))

const processesOf = (self: machine.Machine, process: machine.Process): VersionedStore.Processes => ({
  own: nameOf(process),
  look: (name) =>
    Effect.sync(() => {
      const found = self.processes.find((one) => nameOf(one) === name)
      return found === undefined || found.status === "dead" ? "gone" : "alive"
    })
})

type Operation = VersionedStore.VersionedStoreError["operation"]

/** Sends an operation to the database, which performs it as a whole, and waits for its end. */
const send = <A, E>(
  { database, process, self }: Connection,
  effect: Effect.Effect<A, E>,
  [there, back]: readonly [number, number]
) =>
  Effect.contextWith((context: Context.Context<never>) =>
    Effect.callback<Exit.Exit<A, E>>((resume) => {
      const arrive = (exit: Exit.Exit<A, E>) =>
        machine.schedule(self, process, back, () => resume(Effect.succeed(exit)))
      machine.schedule(self, database, there, () => machine.goOutside(self, database, effect, context, arrive))
    })
  )

const endOf = (exit: Exit.Exit<unknown, { readonly _tag: string }>): string =>
  Exit.match(exit, {
    onSuccess: () => "",
    onFailure: (cause) =>
      `: ${Option.match(Cause.findErrorOption(cause), { onNone: () => "a defect", onSome: ({ _tag }) => _tag })}`
  })

/** A process, and the process that has the store. */
interface Connection {
  readonly self: machine.Machine
  readonly process: machine.Process
  readonly database: machine.Process
}

/**
 * A store as a process of a world reaches it. `failsAt`: of an operation that fails whatever is drawn, by its number from 1 on, if the failure comes
 * after it took effect.
 */
export const make = (
  connection: Connection,
  store: VersionedStore.Service,
  faults: StoreFaults,
  failsAt: ReadonlyMap<number, boolean> = new Map()
): VersionedStore.Service => {
  const { process, self } = connection
  const {
    conflicts = 0,
    failures = 0.01,
    knowsProcesses = false,
    latency: [least, most] = [0, 6],
    staleness = 50
  } = faults
  const { chance } = self

  const through = <A, E extends { readonly _tag: string }>(
    operation: Operation,
    key: string,
    effect: Effect.Effect<A, E>,
    age = 0
  ): Effect.Effect<A, E | VersionedStore.VersionedStoreError> =>
    Effect.suspend((): Effect.Effect<A, E | VersionedStore.VersionedStoreError> => {
      const planned = failsAt.get(machine.count(self, "storeOperations"))
      const drawn = self.isCalm ? 1 : chance.next()
      const ways = [chance.between(least, most), chance.between(least, most) + chance.between(0, age)] as const
      const sent = send(connection, effect, ways)
      const text = `${operation} ${key}`
      if (planned === undefined && drawn >= failures) {
        return Effect.flatMap(sent, (exit) => {
          machine.note(self, process, `${text}${endOf(exit)}`)
          return exit
        })
      }
      machine.count(self, "storeFailures")
      const isApplied = planned ?? drawn < failures / 2
      machine.note(self, process, `${text} fails${isApplied ? " after it took effect" : ""}`)
      const error = VersionedStore.unavailable({
        operation,
        key,
        storage: "store",
        error: "Simulated",
        cause: undefined
      })
      return Effect.andThen(isApplied ? sent : Effect.sleep(ways[0]), Effect.fail(error))
    })

  /** Another writer leaves the value as it is, in a new version. */
  const disturbed = <A, E>(key: string, write: Effect.Effect<A, E>) =>
    Effect.suspend(() => {
      if (self.isCalm || !chance.happens(conflicts)) return write
      machine.note(self, process, `another writer writes ${key}`)
      const touch = Effect.flatMap(store.get(key), (found) =>
        Option.isNone(found)
          ? Effect.void
          : store.compareAndSet(key, Option.some(found.value.version), found.value.value)
      )
      return Effect.andThen(Effect.ignore(touch), write)
    })

  const { commit } = store
  return {
    get: (key) => through("get", key, store.get(key)),
    list: (options) => through("list", options?.prefix ?? "", store.list(options), staleness),
    delete: (key, options) => through("delete", key, store.delete(key, options)),
    compareAndSet: (key, expected, value) =>
      through("compareAndSet", key, disturbed(key, store.compareAndSet(key, expected, value))),
    ...(commit !== undefined && {
      commit: (writes: VersionedStore.Commit) =>
        through("compareAndSet", writes.changed.key, disturbed(writes.changed.key, commit(writes)))
    }),
    ...(knowsProcesses && { processes: Effect.succeedSome(processesOf(self, process)) })
  }
}
