/**
 * Every function that walks a value of others, which a client, a tool or the code around made, and which no codec has copied.
 * Its parts may refer to each other in any way. What walks copies is not here: each copy is a tree.
 */
import { Effect, Layer, Logger, Schema, Stream } from "effect"
import { Prompt, Response, Tool, Toolkit } from "effect/ai"
import type { LanguageModelV4Content, LanguageModelV4StreamPart } from "@ai-sdk/provider"
import * as Agent from "#src/agent/Agent.ts"
import * as AiSdk from "#src/ai-sdk/AiSdk.ts"
import * as Conversation from "#src/conversation/Conversation.ts"
import * as Message from "#src/conversation/Message.ts"
import * as history from "#src/conversation/internal/history.ts"
import * as modelMessages from "#src/conversation/internal/modelMessages.ts"
import * as OpenAiMessages from "#src/interop/OpenAiMessages.ts"
import * as Digest from "#src/payload/Digest.ts"
import * as Json from "#src/payload/Json.ts"
import * as JsonSchema from "#src/payload/JsonSchema.ts"
import { defaultLimits } from "#src/payload/internal/limits.ts"
import { maxWeight, weigh, wellFormedness } from "#src/payload/internal/weigh.ts"
import * as Session from "#src/session/Session.ts"
import * as VersionedStore from "#src/store/VersionedStore.ts"
import * as ScriptedModel from "#src/testing/ScriptedModel.ts"
import * as ToolResult from "#src/tool/ToolResult.ts"
import * as ToolRuntime from "#src/tool/ToolRuntime.ts"

/** A value whose parts are shared: 2 to the power of `levels` ways lead to its leaf. */
export const shared = (levels: number, leaf: unknown = "x"): unknown => {
  let all = leaf
  for (let level = 0; level < levels; level++) all = { a: all, b: all }
  return all
}

/** A value that refers to itself twice. */
export const circular = (): unknown => {
  const all: Record<string, unknown> = {}
  all["a"] = all
  all["b"] = all
  return all
}

/** An array with almost no items. */
export const sparse = (): unknown => {
  const all: Array<unknown> = []
  all[2 ** 32 - 2] = "x"
  return all
}

type Walk = (value: unknown) => Effect.Effect<unknown, unknown>

/** Effect's decoder throws on what is deeper than the stack, and its types do not have these values. */
const call =
  (f: (value: never) => unknown): Walk =>
  (value) =>
    Effect.sync(() => f(value as never))

const usage = {
  inputTokens: { total: 1, noCache: undefined, cacheRead: undefined, cacheWrite: undefined },
  outputTokens: { total: 1, text: undefined, reasoning: undefined }
}

const finishReason = { unified: "stop", raw: "stop" } as const

const quiet = <A, E>(effect: Effect.Effect<A, E>) => Effect.provide(effect, Logger.layer([]))

const greeter = Agent.make("greeter")

/** A run with the model of a client, whole and streamed. */
const client =
  (content: (value: never) => ReadonlyArray<LanguageModelV4Content>): Walk =>
  (value) => {
    const parts = content(value as never)
    const streamed: ReadonlyArray<LanguageModelV4StreamPart> = [
      { type: "stream-start", warnings: [] },
      ...parts.flatMap((part, index): ReadonlyArray<LanguageModelV4StreamPart> => {
        if (part.type !== "text") return part.type === "reasoning" ? [] : [part]
        const id = String(index)
        const about = { id, providerMetadata: part.providerMetadata ?? {} }
        return [
          { type: "text-start", ...about },
          { type: "text-delta", delta: part.text, ...about },
          { type: "text-end", id }
        ]
      }),
      { type: "finish", finishReason, usage }
    ]
    const model = AiSdk.model({
      specificationVersion: "v4",
      provider: "p",
      modelId: "m",
      supportedUrls: {},
      doGenerate: () => Promise.resolve({ content: [...parts], finishReason, usage, warnings: [] }),
      doStream: () =>
        Promise.resolve({
          stream: new ReadableStream({
            start: (controller) => {
              for (const part of streamed) controller.enqueue(part)
              controller.close()
            }
          })
        })
    } as never)
    const options = { modelMistakes: 0 }
    return Effect.all([
      Effect.result(greeter.run("go", options)),
      Effect.result(Stream.runDrain(greeter.stream("go", options)))
    ]).pipe(Effect.provide(model), quiet)
  }

const toolkit = Toolkit.make(
  Tool.make("t", { success: Schema.Unknown, failure: Schema.Unknown, failureMode: "return" })
)

/** A run with a tool that ends like this. */
const tool =
  (end: (value: unknown) => Effect.Effect<unknown, unknown>): Walk =>
  (value) =>
    Agent.make("caller", { toolkit })
      .run("go")
      .pipe(
        Effect.provide([
          toolkit.toLayer({ t: () => end(value) }),
          ScriptedModel.layer([{ toolCalls: [{ name: "t", params: {} }] }, { text: "done" }])
        ]),
        Effect.result,
        quiet
      )

/** A run with a tool runtime that returns what was made elsewhere. */
const runtime =
  (result: (value: never) => unknown): Walk =>
  (value) =>
    Agent.make("caller", { toolkit })
      .run("go")
      .pipe(
        Effect.provide([
          toolkit.toLayer({ t: () => Effect.succeed(1) }),
          ToolRuntime.layer({ dispatch: () => Effect.sync(() => result(value as never) as never) }),
          ScriptedModel.layer([{ toolCalls: [{ name: "t", params: {} }] }, { text: "done" }])
        ]),
        Effect.result,
        quiet
      )

/** A message to a session with these options. */
const session =
  (options: (value: never) => Session.SendOptions): Walk =>
  (value) =>
    Effect.result(Session.turn("s", "x", options(value as never))).pipe(
      Effect.provide(
        Session.layer([greeter]).pipe(
          Layer.provide([VersionedStore.layerMemory, ScriptedModel.layer(() => ({ text: "x" }))])
        )
      ),
      quiet
    )

/** The accumulator of an answer with this value in one part. */
const answered = (type: "tool-call" | "tool-result", text?: string): Walk =>
  call((value) => {
    const parts = modelMessages.accumulator()
    const about = { id: "c", name: "t", providerExecuted: type === "tool-result", isFailure: false, preliminary: false }
    if (text !== undefined) {
      parts.add(Response.makePart("tool-params-start", { id: "c", name: "t", providerExecuted: false }))
      parts.add(Response.makePart("tool-params-delta", { id: "c", delta: text }))
    }
    // The types of `effect/ai` allow any value here
    parts.add({ type, ...about, params: value, result: value, encodedResult: value, metadata: {} } as never)
    return modelMessages.unstorable(parts.result(), defaultLimits)
  })

export const walkers: { readonly [name: string]: Walk } = {
  weigh: call((value) => weigh(value, maxWeight, 1000)),
  "weigh, of anything": call((value) => weigh(value, maxWeight, 1000, "anything")),
  copyJson: (value) => Effect.result(Json.check(value)),
  findSecret: call((value) => Json.findSecret(value)),
  "Json.stringify": (value) => Effect.result(Json.stringify(value)),
  "Digest.canonicalize": call((value) => Digest.canonicalize(value)),
  "JsonSchema.make": (value) => Effect.result(JsonSchema.make({ default: value })),
  "JsonSchema.validate": (value) => Effect.map(JsonSchema.make({}), (schema) => JsonSchema.validate(schema, value)),
  wellFormedness: call(wellFormedness),
  "history.mend": call(history.mend),
  "history.storable": call(history.storable),
  "history.freeze, metadata of a message": (value) => Message.user("x", { metadata: { value: value as never } }),
  "modelMessages.accumulator, arguments": answered("tool-call"),
  "modelMessages.accumulator, arguments with their text": answered("tool-call", "{}"),
  "modelMessages.accumulator, a provider's result": answered("tool-result"),
  "modelMessages.unstorable, metadata": call((value) => {
    const parts = modelMessages.accumulator()
    parts.add(Response.makePart("text", { text: "x", metadata: { demo: { value } } }))
    return modelMessages.unstorable(parts.result(), defaultLimits)
  }),
  "Conversation.fromPrompt, arguments": (params) =>
    Effect.result(
      Conversation.fromPrompt(
        Prompt.make([
          { role: "user", content: "x" },
          { role: "assistant", content: [Prompt.toolCallPart({ id: "c", name: "t", params, providerExecuted: false })] }
        ])
      )
    ),
  "OpenAiMessages.toConversation": (content) =>
    Effect.result(OpenAiMessages.toConversation([{ role: "user", content }])),
  "AiSdk, metadata": client((value) => [{ type: "text", text: "x", providerMetadata: { demo: { value } } }]),
  "AiSdk, metadata of a call": client((value) => [
    { type: "tool-call", toolCallId: "c", toolName: "t", input: "{}", providerMetadata: { demo: { value } } }
  ]),
  "AiSdk, the result of a provider's tool": client((result) => [
    { type: "tool-call", toolCallId: "c", toolName: "search", input: "{}", providerExecuted: true },
    { type: "tool-result", toolCallId: "c", toolName: "search", result }
  ]),
  "the result of a tool": tool(Effect.succeed),
  "the failure of a tool": tool(Effect.fail),
  "the defect of a tool": tool(Effect.die),
  "ToolResult.success": call(ToolResult.success),
  "ToolResult.text": call((value) => ToolResult.text(ToolResult.failure("t", "", value))),
  "Json.show": call((value) => Json.show(value)),
  "the result of a tool runtime": runtime((value) => value),
  "the value of the result of a tool runtime": runtime(ToolResult.success),
  "a context": (context) =>
    greeter
      .run("go", { context: context as never })
      .pipe(Effect.provide(ScriptedModel.layer([{ text: "x" }])), Effect.result),
  "the context of a session": session((context) => ({ context })),
  "the metadata of a session": session((metadata) => ({ metadata })),
  "the context of a run": (value) =>
    greeter
      .run("go", { context: { value: value as never } })
      .pipe(Effect.provide(ScriptedModel.layer([{ text: "x" }])), Effect.result),
  "the options of a model": (value) =>
    Effect.result(Agent.encode(Agent.make("a", { model: "m/x", modelOptions: { value: value as never } }))),
  VersionedStore: (value) =>
    Effect.gen(function* () {
      const store = yield* VersionedStore.VersionedStore
      return yield* Effect.result(store.compareAndSet("k", { _tag: "None" } as never, value as never))
    }).pipe(Effect.provide(VersionedStore.layerMemory))
}
