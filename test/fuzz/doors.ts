/** Every place where data from outside is read, each as one effect: a value, or a typed failure. */
import { Effect, Equal, FileSystem, Layer, Option, Redacted, Result, Schedule } from "effect"
import type * as toolCall from "#src/tool/internal/toolCall.ts"
import * as runTransition from "#src/run/internal/runTransition.ts"
import { HttpClient, HttpClientResponse, HttpRouter, HttpServer } from "effect/http"
import {
  Agent,
  AgentDefinition,
  Conversation,
  ModelRegistry,
  type PayloadError,
  Run,
  ToolResolver,
  ToolRuntime,
  VersionedStore
} from "effect-emissary"
import { RemoteTools } from "effect-emissary/tool"
import { AnthropicMessages, OpenAiMessages } from "effect-emissary/interop"
import { Digest, Json, JsonSchema, Signed, type VersionedCodec } from "effect-emissary/payload"
import { Picture, Plan, PlanRun, Step } from "effect-emissary/plan"
import { Session } from "effect-emissary/session"
import { ScriptedModel } from "effect-emissary/testing"
import { Duration } from "effect"
import { toolkit, handlers, Probe } from "../agent/fixtures.ts"
import { key, publicKey } from "../payload/known-key.ts"
import { compared } from "../payload/jsonschema/compared.ts"
import type { Random } from "../random.ts"
import * as remote from "../tool/fixtures/remote-tools.ts"
import { counts, type Input } from "./mutate.ts"
import { bound, type Records, type seeds } from "./seeds.ts"

type Seeds = Effect.Success<typeof seeds>

/** A defect is a finding; so is a property that does not hold, which dies here. */
const broken = (problem: string) => Effect.die(new Error(problem))

export interface Door {
  readonly name: string
  readonly seeds: ReadonlyArray<unknown>
  /** `place` is the index of the seed that the input is made of. */
  readonly open: (input: Input, random: Random, place: number) => Effect.Effect<unknown, unknown>
  /** It cannot run in one piece. */
  readonly isAsync?: boolean
  /** It takes longer than others, and so its turn comes less often. */
  readonly isSlow?: boolean
}

const hasReason = (error: unknown, tags: ReadonlyArray<string>): boolean =>
  typeof error === "object" &&
  error !== null &&
  "reason" in error &&
  typeof error.reason === "object" &&
  error.reason !== null &&
  "_tag" in error.reason &&
  tags.includes(String(error.reason._tag))

/** JSON of the input, as a host reads it. */
const read = (input: Input): Effect.Effect<unknown, PayloadError.PayloadError> =>
  input._tag === "Text" ? Json.parse(input.text) : Effect.succeed(input.value)

/** Writes, reads and writes again an accepted value: both texts are the same. */
const again = <A>(codec: VersionedCodec.VersionedCodec<A>, value: A) =>
  Effect.gen(function* () {
    const written = yield* Effect.result(codec.encode(value))
    if (Result.isFailure(written)) {
      // A decoder takes keys that an encoder refuses
      if (hasReason(written.failure, ["Secret"])) return
      // Names of old versions may be none in the newest
      for (const version of codec.versions.slice(0, -1)) {
        const older = yield* Effect.result(codec.encode(value, { version }))
        if (Result.isSuccess(older) || older.failure._tag === "LossyEncoding") return
      }
      return yield* broken(`${codec.what} is read and cannot be written: ${written.failure.message}`)
    }
    const second = yield* Effect.catch(codec.decode(written.success), (error) =>
      broken(`${codec.what} is written and cannot be read: ${error.message}`)
    )
    const first = JSON.stringify(written.success)
    if (JSON.stringify(yield* Effect.orDie(codec.encode(second))) !== first) {
      return yield* broken(`${codec.what} is written otherwise the second time`)
    }
    const third = yield* Effect.orDie(codec.decodeJson(first))
    if (JSON.stringify(yield* Effect.orDie(codec.encode(third))) !== first) {
      return yield* broken(`${codec.what} is read otherwise as text`)
    }
  })

const decodeWith = <A>(codec: VersionedCodec.VersionedCodec<A>, input: Input) =>
  input._tag === "Text" ? codec.decodeJson(input.text) : codec.decode(input.value)

const codecDoor = <A>(
  codec: VersionedCodec.VersionedCodec<A>,
  from: ReadonlyArray<unknown>,
  use: (value: A) => Effect.Effect<unknown, unknown> = () => Effect.void,
  name = codec.what
): Door => ({
  name,
  seeds: from,
  open: (input) =>
    Effect.gen(function* () {
      const value = yield* decodeWith(codec, input)
      yield* again(codec, value)
      yield* use(value)
    })
})

const pure = (make: () => unknown) => Effect.sync(make)

const binding = Layer.mergeAll(
  ModelRegistry.layerContext.pipe(Layer.provide(ScriptedModel.layer([]))),
  ToolResolver.layerStubs()
)
const local = Layer.mergeAll(
  ModelRegistry.layerContext.pipe(Layer.provide(ScriptedModel.layer([]))),
  ToolResolver.layerToolkit(toolkit).pipe(Layer.provide(handlers), Layer.provide(Probe.layer))
)

/** Records of a store, one of them changed; then everything that reads them. */
const recordDoor = <R>(
  name: string,
  records: Records,
  services: Layer.Layer<R, never, VersionedStore.VersionedStore>,
  use: Effect.Effect<unknown, unknown, R>
): Door => ({
  name,
  isAsync: true,
  isSlow: true,
  seeds: records.map(([, value]) => value),
  open: (input, { below, chance }, seed) =>
    Effect.gen(function* () {
      const changed = yield* read(input)
      // The store takes JSON only
      const json = yield* Json.check(changed)
      const place = chance(0.9) ? seed : below(records.length)
      const store = yield* VersionedStore.VersionedStore
      for (const [index, [key, value]] of records.entries()) {
        yield* store.compareAndSet(key, Option.none(), index === place ? json : value)
      }
      yield* Effect.provide(use, services)
    }).pipe(Effect.provide(VersionedStore.layerMemory))
})

/** Each is tried. Fails with all failures if each fails, or, with `"any"`, if one does. */
const each = (fails: "each" | "any", ...effects: ReadonlyArray<Effect.Effect<unknown, unknown>>) =>
  Effect.gen(function* () {
    const results = yield* Effect.forEach(effects, Effect.result)
    const failures = results.flatMap((result) => (Result.isFailure(result) ? [result.failure] : []))
    if (fails === "each" ? failures.length === effects.length : failures.length > 0) return yield* Effect.fail(failures)
  })

const token = Redacted.make("s3cret")

const callOf: toolCall.BoundCall = {
  runId: "run-1",
  id: "call-1",
  contract: {
    name: "get_order",
    parameters: { type: "object" },
    timeout: Duration.seconds(10),
    approval: "never",
    annotations: {},
    digest: "sha256:00"
  },
  arguments: { id: "42" },
  context: {},
  timeout: Duration.seconds(10),
  deadline: undefined,
  result: undefined,
  execute: Option.none()
}

const bodyOf = (input: Input): string | Uint8Array<ArrayBuffer> => {
  if (input._tag === "Text") return typeof input.text === "string" ? input.text : Uint8Array.from(input.text)
  // A sender can only send what has a text, and it calls its getters itself
  const { getters } = counts
  const body = Result.try(() => JSON.stringify(input.value) ?? "null")
  counts.getters = getters
  return Result.getOrElse(body, () => "null")
}

/** The tool server, without sockets. */
const serverDoor = Effect.gen(function* () {
  const app = RemoteTools.layerServer(remote.Tools, { token }).pipe(
    Layer.provide(remote.handlers),
    Layer.provide(remote.Probe.layer),
    Layer.provideMerge(HttpServer.layerServices)
  )
  const { handler } = yield* Effect.acquireRelease(
    Effect.sync(() => HttpRouter.toWebHandler(app, { disableLogger: true })),
    (server) => Effect.promise(() => server.dispose())
  )
  const send = (body: string | Uint8Array<ArrayBuffer>) =>
    Effect.promise(() =>
      handler(
        new Request("http://localhost/tools/execute", {
          method: "POST",
          headers: { authorization: "Bearer s3cret", "content-type": "application/json" },
          body
        })
      )
    )
  const request = {
    protocol: 1,
    runId: "r",
    callId: "c",
    name: "report",
    arguments: { items: [{ sku: "a", qty: 1 }], note: "n" },
    context: { tenant: "acme" }
  }
  const door: Door = {
    name: "tool server",
    isAsync: true,
    isSlow: true,
    seeds: [request, { ...request, name: "get_order", arguments: { id: "42" } }, { ...request, name: "who_am_i" }],
    open: (input) =>
      Effect.gen(function* () {
        const response = yield* send(bodyOf(input))
        const text = yield* Effect.promise(() => response.text())
        if (response.status >= 500) return yield* broken(`the server answers ${response.status}: ${text}`)
        // A refusal is checked for secrets, as an error is
        if (response.status >= 400) return yield* Effect.fail({ _tag: "Refusal", message: text })
      })
  }
  return door
})

const clientDoor = Effect.gen(function* () {
  let body: string | Uint8Array<ArrayBuffer> = ""
  const http = HttpClient.make((request) =>
    Effect.sync(() =>
      HttpClientResponse.fromWeb(
        request,
        new Response(body, { status: 200, headers: { "content-type": "application/json" } })
      )
    )
  )
  const services = yield* Layer.build(
    RemoteTools.layerRuntime({ url: "http://localhost", token, retry: Schedule.recurs(0) }).pipe(
      Layer.provide(Layer.succeed(HttpClient.HttpClient, http))
    )
  )
  const success = { _tag: "Success", content: [{ type: "text", text: "shipped" }], value: { a: [1] } }
  const failure = { _tag: "Failure", type: "down", message: "It is down", value: {} }
  const door: Door = {
    name: "tool client",
    isAsync: true,
    isSlow: true,
    seeds: [success, failure].map((result) => ({ protocol: 1, callId: "call-1", result })),
    open: (input) =>
      Effect.gen(function* () {
        body = bodyOf(input)
        const runtime = yield* ToolRuntime.ToolRuntime
        const result = yield* runtime.dispatch(callOf)
        // Failures of the client are its own words; results of the server are for the model
        if (result._tag === "Failure" && result.type === "remote_unavailable") {
          return yield* Effect.fail({ _tag: "Unavailable", message: JSON.stringify(result) })
        }
      }).pipe(Effect.provide(services))
  }
  return door
})

const schemaDoor = (from: ReadonlyArray<unknown>): Door => ({
  name: "JSON Schema",
  seeds: from,
  open: (input, random) =>
    Effect.gen(function* () {
      const json = yield* Json.check(yield* read(input))
      const schema = yield* JsonSchema.make(json)
      JsonSchema.toSchema(schema)
      for (const value of [json, { id: 1, text: "x" }, random.pick([null, "a", 1, [], {}])]) {
        const isAccepted = JsonSchema.accepts(schema, value)
        const result = JsonSchema.validate(schema, value, { coerce: random.chance(0.5) })
        if (Result.isSuccess(result) && !JsonSchema.accepts(schema, result.success)) {
          return yield* broken("validate returns a value that accepts refuses")
        }
        if (isAccepted && Result.isFailure(result)) return yield* broken("validate refuses what accepts takes")
      }
    })
})

const interopDoor = (
  name: string,
  reader: typeof OpenAiMessages.toConversation,
  from: ReadonlyArray<unknown>
): Door => ({
  name,
  seeds: from,
  open: (input, { chance }) =>
    Effect.gen(function* () {
      const messages = yield* read(input)
      const conversation = chance(0.5)
        ? yield* reader(messages)
        : (yield* reader(messages, { onUnlawful: "repair" })).conversation
      yield* again(Conversation.codec, conversation)
      yield* render(conversation)
    })
})

const render = (conversation: Conversation.Conversation) =>
  pure(() => [
    OpenAiMessages.fromConversation(conversation),
    AnthropicMessages.fromConversation(conversation),
    Conversation.toPrompt(conversation),
    Conversation.transcript(conversation)
  ])

/** Text is read as `JSON.parse` reads it, but for what is refused on purpose. */
const jsonDoor = (from: ReadonlyArray<unknown>): Door => ({
  name: "Json.parse against JSON.parse",
  seeds: from,
  open: (input) =>
    Effect.gen(function* () {
      if (input._tag === "Value") {
        const json = yield* Json.check(input.value)
        const text = yield* Effect.catch(Json.stringify(json), (error) => broken(error.message))
        if (!Equal.equals(yield* Effect.orDie(Json.parse(text)), json))
          return yield* broken("stringify and parse differ")
        // It is a plain copy, so the platform writes the same
        if (JSON.stringify(json) !== text) return yield* broken("stringify differs from JSON.stringify")
        return
      }
      const text =
        typeof input.text === "string" ? input.text : new TextDecoder("utf-8", { ignoreBOM: true }).decode(input.text)
      const native = Result.try((): unknown => JSON.parse(text))
      const found = yield* Effect.result(Json.parse(input.text))
      if (Result.isSuccess(found)) {
        if (Result.isFailure(native)) return yield* broken("Json.parse takes what JSON.parse refuses")
        if (!Equal.equals(found.success, native.success)) return yield* broken("Json.parse and JSON.parse differ")
        if (repeatsKey(text, valuesOf(native.success))) return yield* broken("Json.parse takes a key twice")
        yield* Effect.ignore(Digest.sha256(found.success))
        return
      }
      const { reason } = found.failure
      if (Result.isSuccess(native) && !isOnPurpose(input.text, text, native.success, reason)) {
        return yield* broken(`Json.parse refuses what JSON.parse takes: ${found.failure.message}`)
      }
      return yield* Effect.fail(found.failure)
    })
})

/** All values in a value, itself included. */
const valuesOf = (value: unknown): ReadonlyArray<unknown> =>
  typeof value === "object" && value !== null ? [value, ...Object.values(value).flatMap(valuesOf)] : [value]

/** A text that JSON.parse takes has as many keys as its value, but for repeated keys. */
const repeatsKey = (text: string, values: ReadonlyArray<unknown>): boolean => {
  const keys = (text.match(/"(?:[^"\\]|\\.)*"\s*:?/gs) ?? []).filter((token) => token.endsWith(":"))
  const members = values.map((value) =>
    typeof value === "object" && value !== null && !Array.isArray(value) ? Object.keys(value).length : 0
  )
  return keys.length > members.reduce((sum, count) => sum + count, 0)
}

/** Refused, though JSON.parse takes it: a key twice, a number that does not fit, bytes that are no UTF-8, a limit, a forbidden key. */
const isOnPurpose = (
  given: string | Uint8Array,
  text: string,
  native: unknown,
  reason: PayloadError.Reason
): boolean => {
  if (reason._tag === "Invalid")
    return valuesOf(native).some((value) => typeof value === "number" && !Number.isFinite(value))
  if (reason._tag !== "NotJson") return true
  if (typeof given !== "string" && !Equal.equals(new TextEncoder().encode(text), given)) return true
  return repeatsKey(text, valuesOf(native))
}

const text = (input: Input): string => {
  const body = bodyOf(input)
  return typeof body === "string" ? body : new TextDecoder().decode(body)
}

/** All doors. */
export const makeDoors = Effect.fnUntraced(function* (from: Seeds) {
  const parameters = from.agents.flatMap((agent) =>
    Json.isObject(agent) && Array.isArray(agent["tools"])
      ? agent["tools"].flatMap((tool) => (Json.isObject(tool) ? [tool["parameters"] ?? tool["parameters_schema"]] : []))
      : []
  )
  const stubs = yield* Layer.build(binding)
  const tools = yield* Layer.build(local)
  const plan = yield* bound
  const envelopes = yield* Effect.forEach(from.agents.slice(0, 3), (agent) =>
    Signed.sign(agent ?? null, { as: AgentDefinition.codec, key })
  )
  const trusted = yield* Layer.build(Signed.layerTrustedKeys([{ keyId: key.keyId, publicKey }]))
  const registry = {
    targets: Object.fromEntries(
      ["a", "b", "c", "d"].map((name) => [name, Step.target(name, () => Effect.succeed(name))])
    )
  }
  const files = (bytes: Uint8Array) => FileSystem.layerNoop({ readFile: () => Effect.succeed(bytes) })

  const doors: ReadonlyArray<Door> = [
    codecDoor(AgentDefinition.codec, from.agents, (definition) =>
      each("each", AgentDefinition.digest(definition), AgentDefinition.codec.encode(definition, { version: 1 }))
    ),
    {
      name: "Agent.decode with stubs",
      seeds: from.agents,
      open: (input) =>
        Effect.provide(input._tag === "Text" ? Agent.decodeJson(input.text) : Agent.decode(input.value), stubs)
    },
    {
      name: "Agent.decode with a toolkit",
      seeds: from.agents,
      open: (input) =>
        Effect.provide(input._tag === "Text" ? Agent.decodeJson(input.text) : Agent.decode(input.value), tools)
    },
    codecDoor(Plan.codec, from.plans, (definition) =>
      each(
        "each",
        pure(() => Plan.warnings(definition)),
        pure(() => Picture.toMermaid(definition)),
        Plan.codec.encode(definition, { version: 1 }),
        Plan.codec.encode(definition, { version: 2 })
      )
    ),
    {
      name: "Plan.decode",
      seeds: from.plans,
      open: (input) => Plan.decode(input._tag === "Text" ? input.text : input.value)
    },
    {
      name: "Plan.decode with a registry",
      seeds: [...from.plans, ...from.boundPlans],
      open: (input) => Plan.decode(input._tag === "Text" ? input.text : input.value, registry)
    },
    codecDoor(Conversation.codec, from.conversations, render),
    {
      name: "conversations repaired",
      seeds: from.conversations,
      open: (input) =>
        Effect.gen(function* () {
          const { conversation } = yield* decodeWith(Conversation.repairingCodec, input)
          yield* again(Conversation.codec, conversation)
          yield* render(conversation)
        })
    },
    codecDoor(Run.stateCodec, from.runStates, (state) => pure(() => Run.next(state))),
    codecDoor(Run.eventCodec, from.runEvent),
    codecDoor(Run.eventsCodec, from.runEvents, (events) =>
      Result.match(Run.fold(events), {
        onFailure: Effect.fail,
        onSuccess: (state) =>
          Effect.andThen(
            pure(() => Run.next(state)),
            again(Run.stateCodec, state)
          )
      })
    ),
    codecDoor(PlanRun.stateCodec, from.planStates, (state) =>
      pure(() => [PlanRun.requests(state), PlanRun.history(state)])
    ),
    codecDoor(PlanRun.eventCodec, from.planEvent),
    codecDoor(PlanRun.eventsCodec, from.planEvents, (events) =>
      Result.match(PlanRun.fold(events), {
        onFailure: Effect.fail,
        onSuccess: (state) =>
          Effect.andThen(
            pure(() => runTransition.plans.next(state)),
            again(PlanRun.stateCodec, state)
          )
      })
    ),
    {
      name: "difference of plans",
      seeds: from.diffs,
      open: (input) =>
        Effect.gen(function* () {
          const json = yield* Effect.flatMap(read(input), (value) => Json.check(value))
          const diff = yield* Json.decode(Picture.Diff)(json)
          yield* Effect.fromResult(Picture.applyDiff(diff, from.before))
        })
    },
    interopDoor("OpenAI messages", OpenAiMessages.toConversation, from.openai),
    interopDoor("Anthropic messages", AnthropicMessages.toConversation, from.anthropic),
    schemaDoor([
      ...parameters,
      { type: "object", properties: { id: { type: "string", pattern: "^a" } }, required: ["id"] }
    ]),
    {
      name: "JsonSchema.accepts against another validator",
      isSlow: true,
      seeds: [null],
      open: (_, { below }) =>
        Effect.gen(function* () {
          const { accepts, schema, value } = yield* compared(below(2 ** 32))
          for (let i = 0; i < 3; i++) {
            const input = value()
            const { expected, found } = accepts(input)
            if (expected !== found) return yield* broken(`accepts differs: ${JSON.stringify({ schema, input, found })}`)
          }
        })
    },
    jsonDoor([...from.agents, ...from.plans, ...from.conversations]),
    {
      name: "JSON in a model's answer",
      seeds: [...from.agents, ...from.plans],
      open: (input) => Effect.fromResult(Json.extract(`Here:\n\`\`\`json\n${text(input)}\n\`\`\``))
    },
    {
      name: "model scripts",
      seeds: from.scripts,
      open: (input) => {
        const body = bodyOf(input)
        const bytes = typeof body === "string" ? new TextEncoder().encode(body) : body
        return Effect.scoped(Layer.build(ScriptedModel.layerFile("script.json").pipe(Layer.provide(files(bytes)))))
      }
    },
    recordDoor(
      "sessions",
      from.records,
      Session.layer([plan]),
      Effect.flatMap(Session.Session, (sessions) =>
        each(
          "any",
          sessions.state("k"),
          sessions.history("k", { untilDamage: true }),
          Effect.provideService(Session.progress(plan, "k"), Session.Session, sessions),
          sessions.list(),
          sessions.read("first"),
          sessions.remove("k")
        )
      )
    ),
    {
      name: "signed agents",
      isAsync: true,
      isSlow: true,
      seeds: envelopes,
      open: (input) =>
        Effect.gen(function* () {
          const json = yield* read(input)
          const verified = yield* Effect.provide(Signed.verify(json, { as: AgentDefinition.codec }), trusted)
          if (!envelopes.some(({ payload }) => Equal.equals(payload, verified.payload))) {
            return yield* broken("a changed payload is verified")
          }
        })
    },
    yield* serverDoor,
    yield* clientDoor
  ]
  return doors
})
