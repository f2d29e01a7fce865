import { assert, describe } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { Agent, Conversation, Message, ToolResult } from "effect-emissary"
import { handlers, Probe, toolkit } from "../agent/fixtures.ts"
import { endsAs } from "../outcomes.ts"
import { test } from "../test.ts"
import { accepted, connect, providers, type Provider } from "./providers.ts"
import { answer, text } from "./replies.ts"

const data = "iVBORw0KGgo="

const picture = ToolResult.filePart({ mediaType: "image/png", data, fileName: "map.png" })

/** The providers that take a file in the result of a tool. */
const resultsWithFiles = new Set(["openai responses", "openai responses, stored", "anthropic", "google"])

const agent = Agent.make("helper", { instructions: "Help.", toolkit })

const world = Layer.provideMerge(handlers, Probe.layer)

/** A user sends a picture, and a tool returns one. */
const conversation = Effect.gen(function* () {
  const call = Message.toolCallPart({ id: "c1", name: "echo", arguments: { text: "map" } })
  const result = ToolResult.success("a map", [ToolResult.textPart("Here is the map:"), picture])
  const failure = {
    ...ToolResult.failure("not_found", "no map"),
    content: [ToolResult.textPart("See:"), picture] as const
  }
  const messages = [
    yield* Message.user([ToolResult.textPart("Compare with this:"), picture]),
    yield* Message.assistant([call, { ...call, id: "c2" }]),
    yield* Message.tool({ callId: "c1", name: "echo", result }),
    yield* Message.tool({ callId: "c2", name: "echo", result: failure })
  ]
  return yield* Effect.fromResult(Conversation.fromMessages(messages))
})

describe("MODEL-4 pictures in messages and in results of tools", () => {
  for (const [name, provider] of Object.entries<Provider>(providers)) {
    test.live(name, function* () {
      const { model, server } = yield* connect(provider, [answer(text("The same."))])
      const options = { conversation: yield* conversation }
      const result = yield* endsAs("Completed", agent.run("And?", options)).pipe(
        Effect.provide(Layer.merge(world, model)),
        Effect.exit,
        accepted(server),
        Effect.flatten
      )
      assert.strictEqual(result.output, "The same.")
      const sent = server.requests[0]?.input ?? []
      const files = sent.flatMap((part) => (part.type === "file" ? [part.data] : []))
      const inResults = resultsWithFiles.has(name)
      assert.deepStrictEqual(files, Array<string>(inResults ? 1 : 3).fill(data))
      const texts = sent.flatMap((part) => (part.type === "tool-result" ? [part.text] : []))
      for (const text of texts) assert.notInclude(text, data)
      for (const [n, words] of ["Here is the map:", "See:"].entries()) assert.include(texts[n], words)
      if (inResults) assert.strictEqual(JSON.stringify(server.bodies[0]).split(data).length, 4)
      else assert.include(texts[0], "[image/png map.png: see the next message]")
    })
  }
})
