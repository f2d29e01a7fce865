/**
 * One process with sessions, which is killed, stopped and started again. Its argument is its task.
 */
import { NodeRuntime } from "@effect/platform-node"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as References from "effect/References"
import * as Stream from "effect/Stream"
import * as door from "./door.ts"
import * as layers from "./layers.ts"
import type * as tasks from "./task.ts"

// Sound: the test wrote it
const task = JSON.parse(process.argv[2] ?? "{}") as tasks.Task

const say = (reply: tasks.Reply) => {
  if (process.connected) process.send?.(reply)
}

/** Answers the calls of the test. */
const answer = Effect.gen(function* () {
  const own = yield* door.Door
  const fork = Effect.runForkWith(yield* Effect.context())
  const streams = new Map<number, Fiber.Fiber<unknown, unknown>>()

  const perform = ({ args, call, method }: tasks.Call): Effect.Effect<unknown, door.DoorError> => {
    // Sound: `remote` sends the arguments of the method
    const [id, second, third, fourth] = args as [string, never, never, never]
    if (method !== "events") return own[method](id, second, third, fourth)
    return Stream.runForEach(own.events(id, second), (item) => Effect.sync(() => say({ call, item })))
  }

  const onMessage = (message: tasks.Call | tasks.Leave) => {
    if ("leave" in message) {
      const stream = streams.get(message.leave)
      streams.delete(message.leave)
      if (stream !== undefined) fork(Fiber.interrupt(stream))
      return
    }
    const { call } = message
    const fiber = fork(
      perform(message).pipe(
        Effect.map((value) => say({ call, value: value ?? null })),
        Effect.catch((error) => Effect.sync(() => say({ call, reason: error.reason, text: error.text }))),
        Effect.catchDefect((defect) =>
          Effect.andThen(
            Effect.logError(`a call of ${message.method} died`, defect),
            Effect.sync(() => say({ call, reason: "Defect", text: Cause.pretty(Cause.die(defect)) }))
          )
        ),
        Effect.ensuring(Effect.sync(() => streams.delete(call)))
      )
    )
    if (message.method === "events") streams.set(call, fiber)
  }
  yield* Effect.acquireRelease(
    Effect.sync(() => process.on("message", onMessage)),
    () =>
      Effect.sync(() => {
        process.off("message", onMessage)
        if (process.connected) process.disconnect()
      })
  )
})

NodeRuntime.runMain(
  Effect.gen(function* () {
    if (task.port === undefined) yield* answer
    say({ ready: true })
    return yield* Effect.never
  }).pipe(Effect.scoped, Effect.provide(layers.runner(task)), Effect.provideService(References.MinimumLogLevel, "Warn"))
)
