/**
 * RIGHT-11 (L11): a file that a provider refuses blocks no conversation. The history has it in each later request. Reports:
 * anthropics/claude-code#58330, #28279 and #12009, anomalyco/opencode#12519, epam/ai-dial-chat#7271, willdady/platypus#328.
 */
import { createAnthropic } from "@ai-sdk/anthropic"
import { createGoogleGenerativeAI } from "@ai-sdk/google"
import { createOpenAI } from "@ai-sdk/openai"
import { createOpenAICompatible } from "@ai-sdk/openai-compatible"
import { assert, describe } from "@effect/vitest"
import { Effect } from "effect"
import { Agent, Conversation, Message, ToolResult } from "effect-emissary"
import { AiSdk } from "effect-emissary/ai-sdk"
import { logged } from "../logged.ts"
import { test } from "../test.ts"

const png = "iVBORw0KGgoAAAANSUhEUgAA"
const jpeg = "/9j/4AAQSkZJRgABAQAAAQAB"

const bytes = (mediaType: string, base64: string): ToolResult.FilePart => ({
  type: "file",
  mediaType,
  fileName: "it",
  data: { type: "base64", base64 }
})

const byUrl = (mediaType: string): ToolResult.FilePart => ({
  type: "file",
  mediaType,
  data: { type: "url", url: "https://example.com/it" }
})

/** A conversation whose tool returned the file, or whose user sent it. */
const withFile = Effect.fnUntraced(function* (from: "tool" | "user", file: ToolResult.FilePart) {
  const look = ToolResult.textPart("look")
  const asked = yield* Conversation.addUser(Conversation.empty, from === "user" ? [look, file] : [look])
  if (from === "user") return yield* Conversation.addAssistant(asked, "I see.")
  const call = Message.toolCallPart({ id: "c1", name: "shot", arguments: {} })
  const called = yield* Conversation.addAssistant(asked, [call])
  return yield* Conversation.addToolResult(called, { callId: "c1", result: ToolResult.success("x", [look, file]) })
})

/** The bodies of the requests to a provider that answers nothing. */
const recorded = () => {
  const bodies: Array<string> = []
  const fetch = (_: unknown, init?: { readonly body?: unknown }) => {
    bodies.push(String(init?.body))
    return Promise.resolve(Response.json({ error: { message: "enough" } }, { status: 400 }))
  }
  const settings = { apiKey: "k", fetch }
  return {
    bodies,
    models: {
      openai: createOpenAI(settings)("gpt-5.2"),
      "chat completions": createOpenAI(settings).chat("gpt-5.2"),
      anthropic: createAnthropic(settings)("claude-sonnet-4-5"),
      google: createGoogleGenerativeAI(settings)("gemini-3-pro"),
      "openai-compatible": createOpenAICompatible({ name: "gateway", baseURL: "http://gateway.test/v1", ...settings })(
        "m"
      )
    }
  }
}

type Provider = keyof ReturnType<typeof recorded>["models"]

const send = Effect.fnUntraced(function* (
  provider: Provider,
  from: "tool" | "user",
  file: ToolResult.FilePart,
  options?: AiSdk.Options
) {
  const { bodies, models } = recorded()
  const conversation = yield* withFile(from, file)
  yield* Agent.make("a")
    .run("and now?", { conversation })
    .pipe(Effect.result, Effect.provide(AiSdk.model(models[provider], options)))
  assert.lengthOf(bodies, 1, `${provider}: the client refuses ${file.mediaType} of a ${from}`)
  return bodies[0] ?? ""
})

const providers: ReadonlyArray<Provider> = ["openai", "chat completions", "anthropic", "google", "openai-compatible"]

/** Types that at least one of the providers refuses, with the providers that take bytes of them. */
const refused: Readonly<Record<string, ReadonlyArray<Provider>>> = {
  "image/svg+xml": [],
  "image/bmp": ["openai-compatible"],
  "audio/ogg": ["google"],
  "video/mp4": ["google", "openai-compatible"],
  "application/octet-stream": [],
  "application/zip": [],
  png: [],
  "": []
}

describe("RIGHT-11 (L11) files that a provider refuses", () => {
  for (const provider of providers) {
    for (const from of ["tool", "user"] as const) {
      test(`${provider}: a file of a ${from} is sent, or a note in its place`, function* () {
        for (const [mediaType, takers] of Object.entries(refused)) {
          const body = yield* send(provider, from, bytes(mediaType, "UklGRgAAAAAA"))
          const isTaken = takers.includes(provider)
          assert.strictEqual(body.includes("UklGRg"), isTaken, `${provider} ${mediaType}: ${body}`)
          assert.strictEqual(
            body.includes("takes no files of this type"),
            !isTaken,
            `${provider} ${mediaType}: ${body}`
          )
        }
        for (const file of [bytes("image/png", png), bytes("application/pdf", "JVBERi0xLjcK"), byUrl("image/png")]) {
          assert.notInclude(yield* send(provider, from, file), "takes no files")
        }
        yield* send(provider, from, byUrl("application/zip"))
        assert.include(yield* send(provider, from, bytes("image/png", "")), "takes no files of this type")
      })
    }
  }

  test("an image has the type that its bytes show, and its name of other programs", function* () {
    for (const provider of providers) {
      for (const mediaType of ["image/png", "image/jpg", "image/jpeg; charset=binary", "image/x-icon"]) {
        const body = yield* send(provider, "tool", bytes(mediaType, jpeg))
        assert.include(body, "image/jpeg", provider)
        assert.notInclude(body, provider === "google" ? `"mimeType":"${mediaType}"` : `${mediaType};base64`, provider)
      }
    }
  })

  test("the log names the type once, and an option of OpenAI's client passes other files through", function* () {
    const zip = bytes("application/zip", "UEsDBAoA")
    const { layer, lines } = logged()
    yield* Effect.provide(send("openai", "user", zip), layer)
    assert.lengthOf(
      lines.filter((line) => line.includes('files of the type "application/zip" are left out')),
      1
    )
    const word = bytes("application/vnd.ms-word", "UEsDBAoA")
    const options = { providerOptions: { openai: { passThroughUnsupportedFiles: true } } }
    assert.include(yield* send("openai", "user", word, options), "UEsDBAoA")
  })
})
