/**
 * One turn of a chat: `node chat.ts <file> [text]`. Without a text it continues with the open calls.
 *
 * Each message is stored the moment it is known, so no message is lost when the process dies. Requests to the model stay
 * within a budget; the stored conversation is whole.
 *
 * A conversation records which calls have no result, not which have started: the tool of a process that died runs again.
 * If it must not, store the events of the run (`Run.Event`) instead, and resume the state they fold to.
 */
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import { Console, Effect, Layer, Option, Ref, Schema } from "effect"
import { Agent, Conversation, ConversationStore } from "effect-emissary"
import { SqliteClient } from "effect-emissary/node"
import { ScriptedModel } from "effect-emissary/testing"

import { Tool, Toolkit } from "effect/ai"

const [filename = "", text, ...flags] = process.argv.slice(2)

const Tools = Toolkit.make(
  Tool.make("read_log", {
    description: "All that is known of a parcel",
    parameters: Schema.Struct({ parcel: Schema.String }),
    success: Schema.String
  })
)

const toolsLayer = Tools.toLayer({
  read_log: ({ parcel }) =>
    Effect.gen(function* () {
      yield* Console.log(`  (read_log of parcel ${parcel} begins)`)
      if (flags.includes("--die")) process.kill(process.pid, "SIGKILL")
      return "Scanned, on its way.\n".repeat(100) + `Parcel ${parcel} was left with the neighbour.`
    })
})

const assistant = Agent.make("assistant", {
  instructions: "You know all about parcels. Be brief.",
  toolkit: Tools,
  // A small number, to show it. In earnest: the context window of the model, less the room for its answer.
  budget: Agent.truncate({ threshold: 700 })
})

/** A model of a few rules: it asks for the log of the parcel in the message, and answers with the last line. */
const model = ScriptedModel.layer(({ messages }): ScriptedModel.Turn => {
  const last = messages.at(-1)
  if (last?.role === "tool") return { text: last.text.split("\n").at(-1) ?? "" }
  const parcel = /parcel (\d+)/.exec(last?.text ?? "")?.[1]
  if (parcel !== undefined) return { toolCalls: [{ name: "read_log", params: { parcel } }] }
  return { text: last?.text.startsWith("Hello") === true ? "Hello, Ada." : "You are welcome." }
})

const program = Effect.gen(function* () {
  const store = yield* ConversationStore.ConversationStore
  const found = yield* store.load("ada")
  const conversation = Option.match(found, {
    onNone: () => undefined,
    onSome: (stored) => stored.conversation
  })
  const open = conversation === undefined ? [] : Conversation.openCalls(conversation)
  yield* Console.log(text === undefined ? `goes on with ${open.length} open call` : `Ada: ${text}`)

  const known = yield* Ref.make(conversation === undefined ? 0 : Conversation.messageCount(conversation))
  const result = yield* assistant.run(text, {
    conversation,
    // This process is the only writer of the chat. With several writers, pass the version that was loaded.
    onEvent: ({ state: { conversation } }) =>
      Effect.gen(function* () {
        const added = Conversation.messages(conversation).slice(yield* Ref.get(known))
        yield* store.append("ada", added)
        yield* Ref.set(known, Conversation.messageCount(conversation))
      }).pipe(Effect.orDie)
  })

  const requests = yield* ScriptedModel.requests
  const sent = requests.at(-1)?.messages.length ?? 0
  yield* Console.log(`Assistant: ${result.text}`)
  yield* Console.log(`  (stored ${Conversation.messageCount(result.conversation)} messages, sent ${sent})`)
})

const storeLayer = ConversationStore.layer().pipe(Layer.provide(SqliteClient.layerStore({ filename })))

program.pipe(Effect.provide([storeLayer, model, toolsLayer]), NodeRuntime.runMain)
