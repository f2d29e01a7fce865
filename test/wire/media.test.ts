import { assert, describe } from "@effect/vitest"
import { Effect, Exit, Layer, Logger } from "effect"
import { Agent, Conversation, Message, ToolResult } from "effect-emissary"
import { OpenAiMessages, OpenAiResponses } from "effect-emissary/interop"
import { handlers, Probe, toolkit } from "../agent/fixtures.ts"
import { endsAs } from "../outcomes.ts"
import { pluck } from "../pluck.ts"
import { test } from "../test.ts"
import { accepted, connect, providers, type Provider } from "./providers.ts"
import { answer, call, text, thinking } from "./replies.ts"

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

describe("MEND-10 files that a provider keeps", () => {
  const foreign = [{ role: "user", content: [{ type: "file", file: { file_id: "file_6F2k" } }] }]

  for (const name of ["openai responses", "anthropic"] as const) {
    test.live(`the id of a file at OpenAI and ${name}`, function* () {
      const { model, server } = yield* connect(providers[name], [answer(text("Read."))])
      const conversation = yield* OpenAiMessages.toConversation(foreign)
      const result = yield* Effect.exit(
        Effect.provide(agent.run(undefined, { conversation }), Layer.merge(world, model))
      )
      if (name === "anthropic") {
        assert.strictEqual(server.bodies.length, 0)
        assert.isTrue(Exit.isFailure(result))
      } else assert.include(JSON.stringify(server.bodies[0]), `"file_id":"file_6F2k"`)
    })
  }
})

describe("MEND-11 later system messages", () => {
  /** The roles that each provider is sent, of: a question, its answer, instructions, a question. */
  const roles: { readonly [name: string]: string } = {
    "openai responses": "system user text system user",
    "openai responses, stored": "system user text system user",
    "openai chat": "system user text system user",
    anthropic: "system user text user system",
    google: "system user text user user",
    "openai compatible": "system user text user user"
  }

  for (const [name, provider] of Object.entries<Provider>(providers)) {
    test.live(name, function* () {
      const { model, server } = yield* connect(provider, [answer(text("Yes.")), answer(text("Si."))])
      const logged: Array<string> = []
      const logger = Logger.make<unknown, void>(({ message }) => void logged.push(String(message)))
      const run = Effect.gen(function* () {
        const first = yield* endsAs("Completed", agent.run("Hello"))
        const conversation = yield* Conversation.addSystem(first.conversation, "Answer in Italian.")
        return yield* endsAs("Completed", agent.run("And?", { conversation }))
      })
      const result = yield* run.pipe(
        Effect.provide([Layer.merge(world, model), Logger.layer([logger])]),
        Effect.exit,
        accepted(server),
        Effect.flatten
      )
      const sent = (n: number) => (server.requests[n]?.input ?? []).map((part) => JSON.stringify(part))
      assert.strictEqual((server.requests[1]?.input ?? []).map(({ type }) => type).join(" "), roles[name])
      // L15: the first request is the beginning of the second one
      assert.deepStrictEqual(sent(1).slice(0, sent(0).length), sent(0))
      assert.strictEqual(
        logged.filter((line) => line.includes("later system messages")).length,
        roles[name] === roles["openai chat"] ? 0 : 1
      )
      // The conversation stays as it was written
      assert.deepStrictEqual(
        Conversation.messages(result.conversation)
          .map(({ role }) => role)
          .join(" "),
        "system user assistant system user assistant"
      )
    })
  }
})

describe("MEND-11 items of the Responses API, as the client of the AI SDK writes them", () => {
  for (const stored of [false, true]) {
    test.live(
      stored ? "references to stored items are refused by name" : "are a conversation, and the items again",
      function* () {
        const provider = providers[stored ? "openai responses, stored" : "openai responses"]
        const script = [
          answer(thinking("Think.", 1), text("Let me see."), call("c1", "echo", { text: "map" })),
          answer(thinking("Again.", 2), text("Done.")),
          answer(text("Yes."))
        ]
        const { model, server } = yield* connect(provider, script)
        const run = Effect.gen(function* () {
          const first = yield* endsAs("Completed", agent.run([ToolResult.textPart("Compare:"), picture]))
          const conversation = yield* Conversation.addSystem(first.conversation, "Be brief.")
          return yield* endsAs("Completed", agent.run("And?", { conversation }))
        })
        const result = yield* run.pipe(
          Effect.provide(Layer.merge(world, model)),
          Effect.exit,
          accepted(server),
          Effect.flatten
        )
        const input = server.bodies[2]?.["input"]
        assert(Array.isArray(input))
        if (stored) {
          const error = yield* Effect.flip(OpenAiResponses.toConversation(input))
          return assert.include(error.message, `got "item_reference"`)
        }
        // The request of the client is read, and written again
        const read = yield* OpenAiResponses.toConversation(input)
        assert.deepStrictEqual<unknown>(yield* Effect.fromResult(OpenAiResponses.fromConversation(read)), input)
        // The conversation of the run is written as the client writes it
        const messages = Conversation.messages(result.conversation).slice(0, -1)
        const own = yield* Effect.fromResult(Conversation.fromMessages(messages))
        const items = yield* Effect.fromResult(OpenAiResponses.fromConversation(own))
        const asClient = items.map((item) => (item["role"] === "system" ? { ...item, role: "developer" } : item))
        assert.deepStrictEqual<unknown>(asClient, input)
        assert.deepStrictEqual(
          pluck(Conversation.transcript(read), "role"),
          pluck(Conversation.transcript(own), "role")
        )
      }
    )
  }
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
