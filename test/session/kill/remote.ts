/** The sessions inside the processes of runners, asked by messages. */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Queue from "effect/Queue"
import * as Stream from "effect/Stream"
import { type Operations, DoorError, type Seen, type Summary, type Written } from "./door.ts"
import type { Fleet, Runner } from "./fleet.ts"
import type * as tasks from "./task.ts"

const unreachable = (text: string) => new DoorError({ reason: "Unreachable", text })

/** The time that a runner has for a call. */
const patience = 4_000

type Answer = Exclude<tasks.Reply, { readonly ready: true }> | "gone"

export const make = (fleet: Fleet): Operations => {
  let calls = 0
  /** The runner that has answered for a session. */
  const homes = new Map<string, string>()

  const choose = (id: string): Effect.Effect<Runner, DoorError> =>
    Effect.suspend(() => {
      const alive = fleet.alive()
      const home = alive.find(({ name }) => name === homes.get(id))
      const runner = home ?? alive[Math.floor(Math.random() * alive.length)]
      return runner === undefined ? Effect.fail(unreachable("no runner")) : Effect.succeed(runner)
    })

  /** Asks, and passes on the answers of the runner until the result is called. */
  const ask = (
    { process }: Runner,
    method: tasks.Call["method"],
    args: ReadonlyArray<unknown>,
    on: (answer: Answer) => void
  ): (() => void) => {
    const call = (calls += 1)
    const onMessage = (reply: tasks.Reply) => {
      if ("call" in reply && reply.call === call) on(reply)
    }
    const onGone = () => on("gone")
    process.on("message", onMessage)
    process.on("exit", onGone)
    process.on("disconnect", onGone)
    if (process.connected) process.send({ call, method, args } satisfies tasks.Call, () => {})
    else queueMicrotask(onGone)
    return () => {
      process.off("message", onMessage)
      process.off("exit", onGone)
      process.off("disconnect", onGone)
      if (method === "events" && process.connected) process.send({ leave: call } satisfies tasks.Leave, () => {})
    }
  }

  const errorOf = (answer: Answer): DoorError | undefined => {
    if (answer === "gone") return unreachable("the runner ended")
    return "reason" in answer ? new DoorError({ reason: answer.reason, text: answer.text }) : undefined
  }

  const forget = (id: string) => (error: DoorError) =>
    Effect.sync(() => {
      if (error.reason === "Elsewhere" || error.reason === "Unreachable") homes.delete(id)
    })

  const once = (method: tasks.Call["method"], id: string, rest: ReadonlyArray<unknown> = []) =>
    Effect.gen(function* () {
      const runner = yield* choose(id)
      const value = yield* Effect.callback<unknown, DoorError>((resume) => {
        const leave = ask(runner, method, [id, ...rest], (answer) => {
          leave()
          const error = errorOf(answer)
          if (error !== undefined) resume(Effect.fail(error))
          else if (answer !== "gone" && "value" in answer) resume(Effect.succeed(answer.value))
        })
        return Effect.sync(leave)
      }).pipe(Effect.timeoutOrElse({ duration: patience, orElse: () => Effect.fail(unreachable("no answer in time")) }))
      homes.set(id, runner.name)
      return value
    }).pipe(Effect.tapError(forget(id)))

  const events = (id: string, after?: string) =>
    Stream.unwrap(
      Effect.map(choose(id), (runner) =>
        Stream.callback<Seen, DoorError>((queue) =>
          Effect.acquireRelease(
            Effect.sync(() =>
              ask(runner, "events", after === undefined ? [id] : [id, after], (answer) => {
                const error = errorOf(answer)
                if (error !== undefined) Queue.failCauseUnsafe(queue, Cause.fail(error))
                // Sound: the runner sends what its stream emits
                else if (answer !== "gone" && "item" in answer) Queue.offerUnsafe(queue, answer.item as Seen)
                else Queue.endUnsafe(queue)
              })
            ),
            (leave) => Effect.sync(leave)
          )
        )
      )
    ).pipe(Stream.tapError(forget(id)))

  /** A runner answers with the value of the method. */
  const valueOf = <A>(effect: Effect.Effect<unknown, DoorError>) => effect as Effect.Effect<A, DoorError>

  return {
    run: (id, ...rest) => valueOf(once("run", id, rest)),
    read: (key) => Effect.map(valueOf<Written | null>(once("read", key)), (found) => found ?? undefined),
    send: (id, ...rest) => valueOf(once("send", id, rest)),
    decide: (id, approved) => valueOf(once("decide", id, [approved])),
    resume: (id) => valueOf(once("resume", id)),
    interrupt: (id) => valueOf(once("interrupt", id)),
    state: (id) => Effect.map(valueOf<Summary | null>(once("state", id)), (found) => found ?? undefined),
    history: (id) => valueOf(once("history", id)),
    events
  }
}
