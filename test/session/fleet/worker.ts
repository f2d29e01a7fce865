/** A runner in a process. It prints a line when it is ready. */
import { NodeRuntime } from "@effect/platform-node"
import { Effect, Logger, Stream } from "effect"
import { Session } from "effect-emissary/session"
import * as layers from "./layers.ts"

const print = (line: string) => Effect.sync(() => process.stdout.write(`${line}\n`))

// Sound: the tests wrote it
const task = JSON.parse(process.argv[2] ?? "{}") as layers.Task

NodeRuntime.runMain(
  Effect.gen(function* () {
    const sessions = yield* Session.Session
    yield* print("ready")
    if (task.message !== undefined) yield* print(JSON.stringify(yield* sessions.send("chat", task.message)))
    if (task.isReader === true) {
      yield* sessions.events("chat").pipe(
        Stream.takeUntil(layers.isEnd),
        Stream.runForEach((entry) => print(`${entry.sequence} ${layers.tagOf(entry)}`))
      )
    }
    return yield* Effect.never
  }).pipe(
    Effect.provide(task.isLocal === true ? layers.local(task) : layers.runner(task)),
    Effect.provide(Logger.layer([]))
  )
)
