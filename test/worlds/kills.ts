/**
 * A process that dies at a stored event while pages of both protocols show its session: another process continues it, the pages connect again, other pages
 * begin afresh, and all of them show what is stored. Each turn of a script is a world of its own, over the store as the turns before left it.
 */
import { Deferred, Effect, Fiber, Layer, Option, Schema } from "effect"
import { VersionedStore } from "effect-emissary"
import type { Session } from "effect-emissary/session"
import { Simulation } from "effect-emissary/testing"
import * as pages from "./pages.ts"
import { dataOf, type Shown } from "./screens.ts"
import * as web from "./web.ts"
import { Attempts, type Script, sessionsOf } from "./scripts.ts"

const session = "chat"

/** The values of a store. */
type Values = ReadonlyMap<string, { readonly value: Schema.Json; readonly version: string }>

/** A store in memory that begins with values. `onStored`: called with the number of the newest event after each write of it. */
const storeOf = (before: Values, hasCommit: boolean, onStored: (sequence: number) => Effect.Effect<void>) => {
  const values = new Map(before)
  const isIn = (key: string, version: Option.Option<string>) =>
    values.get(key)?.version === Option.getOrUndefined(version)
  let versions = 0
  const next = () => `${before.size}-${++versions}`
  const stored = (key: string, value: Schema.Json) => {
    const { sequence } = dataOf(value)
    return key.endsWith(`/head/${session}`) && typeof sequence === "number" ? onStored(sequence) : Effect.void
  }
  const conflict = (key: string, expected: Option.Option<string>) =>
    new VersionedStore.VersionConflict({ key, expected, found: Option.fromUndefinedOr(values.get(key)?.version) })
  const store: VersionedStore.Service = {
    get: (key) => Effect.sync(() => Option.fromUndefinedOr(values.get(key))),
    compareAndSet: (key, expected, value) =>
      Effect.suspend(() => {
        if (!isIn(key, expected)) return Effect.fail(conflict(key, expected))
        const version = next()
        values.set(key, { value, version })
        return Effect.as(stored(key, value), version)
      }),
    delete: (key, { version } = {}) =>
      Effect.suspend(() => {
        const expected = Option.fromUndefinedOr(version)
        if (Option.isSome(expected) && !isIn(key, expected)) return Effect.fail(conflict(key, expected))
        return Effect.succeed(values.delete(key))
      }),
    list: ({ after = "", limit = 100, prefix = "" } = {}) =>
      Effect.sync(() => {
        const all = [...values.keys()].filter((key) => key.startsWith(prefix) && key > after).toSorted()
        const keys = all.slice(0, limit)
        return { keys, next: all.length > limit ? Option.fromUndefinedOr(keys.at(-1)) : Option.none() }
      }),
    ...(hasCommit && {
      commit: ({ added, changed, removed = [] }: VersionedStore.Commit) =>
        Effect.suspend(() => {
          if (!isIn(changed.key, changed.expected)) return Effect.succeedNone
          const version = next()
          for (const { key, value } of [changed, ...added]) values.set(key, { value, version })
          for (const { key, version } of removed) if (isIn(key, Option.some(version))) values.delete(key)
          return Effect.as(stored(changed.key, changed.value), Option.some(version))
        })
    })
  }
  return { values, layer: Layer.succeed(VersionedStore.VersionedStore, store) }
}

interface Write {
  readonly last: number
  readonly at: number
}

/** All that pages asked and got in one world, and what is stored after it. */
export interface Played {
  readonly sent: pages.Sent
  readonly before: ReadonlyArray<Shown>
  readonly ui: ReadonlyArray<pages.Exchange>
  readonly agui: ReadonlyArray<pages.Exchange>
  /** Pages that began right after the kill. */
  readonly freshUi: ReadonlyArray<pages.Exchange>
  readonly freshAgui: ReadonlyArray<pages.Exchange>
  readonly problems: ReadonlyArray<string>
  readonly shown: ReadonlyArray<{ readonly ui: ReadonlyArray<Shown>; readonly agui: ReadonlyArray<unknown> }>
  /** The messages of `chat/ui`, and of `chat/history` with the members that AG-UI has, too. */
  readonly stored: ReadonlyArray<Shown>
  readonly history: ReadonlyArray<Schema.Json>
  readonly values: Values
  /** The number of the newest event, and the writes with the number of the last event of each and the time in milliseconds. */
  readonly sequence: number
  readonly writes: ReadonlyArray<Write>
  readonly killed: boolean
  readonly time: number
}

/** The place of a kill: the event after whose write the process dies, and by how many milliseconds later. */
export interface Kill {
  readonly event: number
  readonly later: number
}

const denied = /spend/

const answersTo = (asked: ReadonlyArray<pages.Asked>): ReadonlyArray<pages.Answer> =>
  asked.map(({ id, input }) =>
    denied.test(id) || denied.test(String(input))
      ? { id, approved: false, reason: "Too much." }
      : { id, approved: true, reason: "Yes." }
  )

/** Plays one turn of a script. */
export const play = Effect.fnUntraced(function* (
  script: Script,
  options: {
    readonly sent: pages.Sent
    readonly seed: number
    readonly kill?: Kill
    readonly from?: Pick<Played, "values" | "stored" | "time" | "sequence">
  }
) {
  const { from, kill, seed, sent } = options
  const writes: Array<Write> = []
  let now = 0
  let die: Effect.Effect<void> | undefined
  let due: number | undefined
  let killed = false
  let played: Played | undefined
  const onStored = (sequence: number) =>
    Effect.suspend(() => {
      if (writes.at(-1)?.last !== sequence) writes.push({ last: sequence, at: now })
      if (kill === undefined || sequence < kill.event || killed || due !== undefined) return Effect.void
      if (kill.later > 0) due = kill.later
      else killed = true
      return kill.later > 0 ? Effect.void : (die ?? Effect.void)
    })
  const { layer, values } = storeOf(from?.values ?? new Map(), seed % 3 === 0, onStored)
  const before = from?.stored ?? []
  const isUi = seed % 2 === 0
  yield* Simulation.run<Session.Session | web.Server, unknown, Attempts>(web.serving(sessionsOf(script), script.chat), {
    seeds: [seed],
    processes: 0,
    compare: false,
    maxTurns: 400_000,
    outside: Attempts.layer,
    store: layer,
    trouble: {
      at: [],
      store: { latency: [0, 2], knowsProcesses: seed % 4 < 2 },
      network: { latency: [0, 2], timeout: 400 }
    },
    script: (world) =>
      Effect.gen(function* () {
        yield* Effect.sleep(from?.time ?? 0)
        const http = web.transport(world)
        const process = yield* world.start
        die = process.kill
        const ui = pages.uiPage(http, session, before)
        const agui = pages.agPage(http, session, sent)
        const [decider, other] = isUi ? [ui, agui] : [agui, ui]
        const follow = (page: typeof ui | typeof agui) => ("load" in page ? page.resume : page.run("again"))
        /** The halves of a turn: each of them is over where the decider has stored its answers, or has nothing to answer. */
        const halves: Array<Deferred.Deferred<boolean>> = [yield* Deferred.make<boolean>()]
        const deciding = Effect.gen(function* () {
          while (true) {
            const over = halves.at(-1)
            const asked = decider.asked()
            if (over === undefined) return
            if (asked.length === 0) return yield* Deferred.succeed(over, false)
            const isStored = Effect.suspend(() => {
              if (halves.at(-1) === over) halves.push(Deferred.makeUnsafe<boolean>())
              return Deferred.succeed(over, true)
            })
            yield* decider.decide(answersTo(asked), isStored)
            yield* isStored
          }
        })
        const following = Effect.fnUntraced(function* (page: typeof ui | typeof agui) {
          for (let half = 0; ; half++) {
            const over = halves[half]
            if (over === undefined || !(yield* Deferred.await(over))) return
            yield* follow(page)
          }
        })
        const send = (page: typeof ui | typeof agui) => ("load" in page ? page.send(sent) : page.run("send"))
        const all = [
          Effect.andThen(send(decider), deciding),
          Effect.andThen(Effect.andThen(Effect.sleep(1), send(other)), following(other))
        ]
        const reading = yield* Effect.forkChild(Effect.all(all, { concurrency: "unbounded" }))
        const freshUi = pages.uiPage(http, session)
        const freshAgui = pages.agPage(http, session, sent)
        const ticking = Effect.gen(function* () {
          while (!killed) {
            yield* Effect.sleep(1)
            now += 1
            if (due === undefined || killed || --due > 0) continue
            killed = true
            yield* process.kill
          }
        })
        const afresh = Effect.gen(function* () {
          yield* ticking
          yield* Effect.forkChild(Effect.andThen(Effect.sleep((seed * 7) % 90), world.start))
          const first = halves.length - 1
          const join = (page: typeof freshUi | typeof freshAgui) =>
            Effect.gen(function* () {
              if ("load" in page) yield* page.load
              yield* follow(page)
              for (let half = first; ; half++) {
                const over = halves[half]
                if (over === undefined || !(yield* Deferred.await(over))) return
                yield* follow(page)
              }
            })
          yield* Effect.all([join(freshUi), join(freshAgui)], { concurrency: "unbounded" })
        })
        const beginning = yield* Effect.forkChild(kill === undefined ? ticking : afresh)
        yield* Fiber.join(reading)
        // A turn that another page answers may have fewer events
        if (!killed) due ??= 1
        if (kill === undefined) yield* Fiber.interrupt(beginning)
        else yield* Fiber.join(beginning)
        // The turn is over, and its last writes are done
        const reader = pages.uiPage(http, session)
        const state = Effect.gen(function* () {
          const response = yield* http.get(`http://world/sessions/chat/state?id=${session}`, {
            headers: { authorization: "Bearer page" }
          })
          return yield* response.json
        })
        yield* Effect.repeat(Effect.delay(state, 20), {
          until: (found) => Schema.is(Schema.Struct({ status: Schema.Literal("idle") }))(found),
          times: 500
        })
        yield* reader.load
        const history = yield* pages.storedOf(http, session)
        played = {
          sent,
          before,
          ui: ui.record,
          agui: agui.record,
          freshUi: freshUi.record,
          freshAgui: freshAgui.record,
          problems: [ui, agui, freshUi, freshAgui].flatMap(({ problems }) => problems),
          shown: [
            { ui: ui.shown(), agui: agui.screen().messages },
            { ui: freshUi.shown(), agui: freshAgui.screen().messages }
          ],
          stored: reader.shown(),
          history,
          values,
          sequence: writes.at(-1)?.last ?? from?.sequence ?? 0,
          writes,
          killed,
          time: (from?.time ?? 0) + 60_000
        }
      })
  })
  if (played === undefined) return yield* Effect.die(new Error("a world without an end"))
  return played
})

const least = 200

/** The turns of a script without a kill: until there are 200 events, or so many turns. */
export const trunk = Effect.fnUntraced(function* (script: Script, number: number, count = Infinity) {
  const turns: Array<Played> = []
  while ((turns.at(-1)?.sequence ?? 0) < least && turns.length < count) {
    const text = script.messages[turns.length % script.messages.length] ?? ""
    const id = `m${turns.length + 1}`
    const before = turns.at(-1)
    const seed = (number * 100 + turns.length) * 1000
    turns.push(yield* play(script, { sent: { id, text: `${id}|${text}` }, seed, ...(before && { from: before }) }))
  }
  return turns
})

/**
 * The places of the kills of a turn. Each event has a kill, and each write another: at the write that stores the event, and evenly in the
 * time up to the next write, where models write and tools run.
 */
export const killsOf = (turns: ReadonlyArray<Played>, turn: number): ReadonlyArray<Kill> => {
  const { writes = [] } = turns[turn] ?? {}
  let before = turns[turn - 1]?.sequence ?? 0
  return writes.flatMap(({ at, last }, index) => {
    const count = last - before + 1
    const gap = Math.max((writes[index + 1]?.at ?? at + 20) - at, 1)
    before = last
    return Array.from({ length: count }, (_, place) => ({ event: last, later: Math.ceil((place * gap) / count) }))
  })
}

/** Plays a turn again with a kill at one of its places. */
export const again = (
  script: Script,
  number: number,
  turns: ReadonlyArray<Played>,
  { kill, place, turn }: { readonly turn: number; readonly place: number; readonly kill: Kill }
) =>
  Effect.suspend(() => {
    const sent = turns[turn]?.sent ?? { id: "", text: "" }
    const from = turns[turn - 1]
    return play(script, { sent, seed: (number * 100 + turn) * 1000 + place + 1, kill, ...(from && { from }) })
  })
