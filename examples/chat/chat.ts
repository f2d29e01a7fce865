/**
 * One turn of a chat: `node chat.ts <file> [text]`. Without a text it resumes the run that was cut off.
 *
 * Each event of the run is stored before the run continues, also where several tools run at once. Another process folds the
 * events to the state and resumes it: a result that was stored is kept, and a call that had started is not made again.
 * Requests to the model stay within a budget; the stored conversation is whole.
 */
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import { Console, Deferred, Effect, Option, Schema } from "effect"
import { Agent, Conversation, Run, ToolRuntime, VersionedStore } from "effect-emissary"
import { SqliteClient } from "effect-emissary/node"
import { ScriptedModel } from "effect-emissary/testing"

import { Tool, Toolkit } from "effect/ai"

const [filename = "", text, ...flags] = process.argv.slice(2)
const dies = flags.includes("--die")

const parameters = Schema.Struct({ parcel: Schema.String })
const Tools = Toolkit.make(
  Tool.make("read_log", { description: "All that is known of a parcel", parameters, success: Schema.String }),
  Tool.make("ask_courier", { description: "Asks the courier of a parcel", parameters, success: Schema.String })
)

/** Both tools run at once: the log is read while the courier is asked. */
const courierIsAsked = Deferred.makeUnsafe<void>()

const toolsLayer = Tools.toLayer({
  read_log: ({ parcel }) =>
    Effect.as(
      Effect.andThen(Console.log(`  (read_log of parcel ${parcel} begins)`), Deferred.await(courierIsAsked)),
      "Scanned, on its way.\n".repeat(80) + `Parcel ${parcel} was left with the neighbour.`
    ),
  ask_courier: ({ parcel }) =>
    Effect.andThen(
      Console.log(`  (ask_courier about parcel ${parcel} begins)`),
      Effect.andThen(
        Deferred.succeed(courierIsAsked, undefined),
        dies ? Effect.never : Effect.succeed("The courier confirms it.")
      )
    )
})

const assistant = Agent.make("assistant", {
  instructions: "You know all about parcels. Be brief.",
  toolkit: Tools,
  // A small number, to show it. In earnest: the context window of the model, less the room for its answer.
  budget: Agent.truncate({ threshold: 700 })
})

/** A model of a few rules: it asks two tools about the parcel in the message, and answers with what they return. */
const model = ScriptedModel.layer(({ messages }): ScriptedModel.Turn => {
  const results = messages.at(-1)?.toolResults ?? []
  if (results.length > 0) {
    const lines = results.map(({ text }) => text.split("\n").at(-1) ?? "")
    return {
      text: lines.map((line) => (line.includes("interrupted") ? "The courier did not answer." : line)).join(" ")
    }
  }
  const last = messages.at(-1)?.text ?? ""
  const parcel = /parcel (\d+)/.exec(last)?.[1]
  if (parcel !== undefined) {
    return { toolCalls: ["read_log", "ask_courier"].map((name) => ({ name, params: { parcel } })) }
  }
  return { text: last.startsWith("Hello") ? "Hello, Ada." : "You are welcome." }
})

/** The events of the run, each under its number. */
const stored = Effect.gen(function* () {
  const store = yield* VersionedStore.VersionedStore
  const events: Array<Run.Event> = []
  while (true) {
    const found = yield* store.get(`ada/${events.length + 1}`)
    if (Option.isNone(found)) return events
    events.push(yield* Run.eventCodec.decode(found.value.value))
  }
})

const program = Effect.gen(function* () {
  const store = yield* VersionedStore.VersionedStore
  const events = yield* stored
  const state = events.length === 0 ? undefined : yield* Effect.fromResult(Run.fold(events))
  const open = state === undefined ? 0 : Conversation.openCalls(state.conversation).length
  yield* Console.log(text === undefined ? `resumes a run with ${open} open call` : `Ada: ${text}`)

  // A number that is taken fails: another process writes to this chat, too.
  const onEvent = ({ event, sequence }: Agent.Entry) =>
    Effect.gen(function* () {
      yield* store.compareAndSet(`ada/${sequence}`, Option.none(), yield* Run.eventCodec.encode(event))
      if (dies && event._tag === "ToolFinished") process.kill(process.pid, "SIGKILL")
    }).pipe(Effect.uninterruptible, Effect.orDie)
  const result = yield* state === undefined
    ? assistant.run(text, { onEvent })
    : assistant.resume(state, { input: text, onEvent })

  const requests = yield* ScriptedModel.requests
  const sent = requests.at(-1)?.messages.length ?? 0
  yield* Console.log(`Assistant: ${result.text}`)
  yield* Console.log(`  (stored ${Conversation.messageCount(result.conversation)} messages, sent ${sent})`)
})

program.pipe(
  Effect.provide([SqliteClient.layerStore({ filename }), model, toolsLayer, ToolRuntime.layerConcurrent()]),
  NodeRuntime.runMain
)
