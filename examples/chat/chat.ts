/**
 * A chat in the terminal that survives `kill -9`: `node examples/chat/chat.ts chat.sqlite`. Kill it at any time and start it again: it
 * prints the chat, ends the turn that was cut off, and continues. Ctrl-D ends it.
 */
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import * as NodeStdio from "@effect/platform-node/NodeStdio"
import { Console, Effect, Layer, Option, Schema, Stdio, Stream } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { Agent } from "effect-emissary"
import { SqliteClient } from "effect-emissary/node"
import { ChatEvent, Session } from "effect-emissary/session"
import { ScriptedModel } from "effect-emissary/testing"

const parameters = Schema.Struct({ parcel: Schema.String })
const Tools = Toolkit.make(
  Tool.make("read_log", { description: "All that is known of a parcel", parameters, success: Schema.String }),
  Tool.make("ask_courier", { description: "Asks the courier of a parcel", parameters, success: Schema.String })
)
const assistant = Agent.make("assistant", { instructions: "You know all about parcels. Be brief.", toolkit: Tools })

const toolsLive = Tools.toLayer({
  read_log: ({ parcel }) =>
    Effect.as(Console.log(`  (reads the log of parcel ${parcel})`), `Parcel ${parcel} was left with the neighbour.`),
  ask_courier: Effect.fnUntraced(function* ({ parcel }) {
    yield* Console.log(`  (asks the courier about parcel ${parcel})`)
    if (parcel === "8") yield* Effect.sleep("1 minute")
    return "The courier confirms it."
  })
})

/** A model of a few rules: it asks both tools about the parcel in the message, and answers with what they return. */
const model = ScriptedModel.layer(({ messages }): ScriptedModel.Turn => {
  const last = messages.at(-1)
  const results = last?.toolResults ?? []
  if (results.length > 0) {
    const lines = results.map(({ text }) => (text.includes("interrupted") ? "The courier did not answer." : text))
    return { text: lines.join(" ") }
  }
  const parcel = /parcel (\d+)/.exec(last?.text ?? "")?.[1]
  if (parcel === undefined) return { text: last?.text.startsWith("Hello") ? "Hello, Ada." : "You are welcome." }
  return { toolCalls: ["read_log", "ask_courier"].map((name) => ({ name, params: { parcel } })) }
})

const program = Effect.gen(function* () {
  const { stdin } = yield* Stdio.Stdio
  const stored = Option.match(yield* Session.state("ada"), { onNone: () => 0, onSome: ({ sequence }) => sequence })

  // The stored events, then new events as they happen. A message that is typed now is on the screen already.
  const print = Session.events("ada").pipe(
    Stream.filterMap(ChatEvent.project()),
    Stream.runForEach(({ event, sequence }) => {
      const isOld = event._tag === "MessageReceived" && sequence <= stored
      if (!isOld && event._tag !== "Answered") return Effect.void
      const text = event.content.map((part) => (part.type === "text" ? part.text : "")).join("")
      return text === "" ? Effect.void : Console.log(`${isOld ? "You" : "Assistant"}: ${text}`)
    })
  )
  const read = stdin.pipe(
    Stream.decodeText,
    Stream.splitLines,
    Stream.runForEach((line) => Session.send("ada", line))
  )
  yield* Effect.raceFirst(print, read)
})

const sessionsLive = Session.layer([assistant]).pipe(
  Layer.provide([SqliteClient.layerStore({ filename: process.argv[2] ?? "chat.sqlite" }), toolsLive, model])
)
program.pipe(Effect.provide([sessionsLive, NodeStdio.layer]), NodeRuntime.runMain)
