import { describe, expect } from "@effect/vitest"
import { Clock, Context, DateTime, Duration, Effect, Layer, Redacted, Result, Schedule, Schema, Stream } from "effect"
import { AiError, Tool, Toolkit } from "effect/ai"
import { HttpClient, HttpClientError, HttpClientResponse, HttpRouter, HttpServer } from "effect/http"
import * as boundTool from "#src/tool/internal/boundTool.ts"
import * as toolCall from "#src/tool/internal/toolCall.ts"
import { Limits, RunContext, ToolContract, ToolFailure, ToolResolver, ToolResult, ToolRuntime } from "effect-emissary"
import { RemoteTools } from "effect-emissary/tool"
import { routes, type ServerOptions, token } from "./fixtures/remote-serve.ts"
import { Probe, Tools } from "./fixtures/remote-tools.ts"
import { bind, call, calls, idle, quiet, search } from "./support.ts"
import { after } from "../after.ts"
import { test } from "../test.ts"

type Cases = Readonly<Record<string, Effect.Effect<unknown, unknown>>>

const fieldsOf = (value: unknown): unknown => {
  if (AiError.isAiError(value)) return { _tag: value._tag, message: value.message }
  return value instanceof Error ? { ...value, message: value.message } : value
}

/** A result, a contract, or an error with its message, as one line without digests and repetitions. */
const write = (value: unknown): string =>
  JSON.stringify(fieldsOf(value))
    .replaceAll(/sha256:[0-9a-f]{64}/g, "sha256:...")
    .replaceAll(/(.)\1{39,}/g, (all, one) => `${one}*${all.length}`)

/** Each case of the table returns, or fails with, what the file has for it. */
const compare = Effect.fnUntraced(function* (cases: Cases, file: string) {
  const lines = yield* Effect.forEach(Object.entries(cases), ([name, effect]) =>
    Effect.map(Effect.result(effect), (result) => `${name}\n  ${write(Result.merge(result))}\n`)
  )
  // each test calls this function
  // oxlint-disable-next-line vitest/no-standalone-expect
  yield* Effect.promise(() => expect(lines.join("")).toMatchFileSnapshot(`golden/${file}.txt`))
})

const parameters = { type: "object" }

const contractOf = (over?: Partial<Parameters<typeof ToolContract.make>[0]>) =>
  ToolContract.make({ name: "t", parameters, ...over })

const stubOf = (over?: Parameters<typeof contractOf>[0]) => Effect.flatMap(contractOf(over), boundTool.makeStub)

const noSchema = Schema.Struct({ a: Schema.String.check(Schema.isPattern(/^(?=a)/u)) })

const noJsonSchema = { type: "object", properties: { a: { type: "string", pattern: "(?=a)" } } }

test("SOUND-7 contracts, and what refuses them", function* () {
  const resolve = (resolver: Layer.Layer<ToolResolver.ToolResolver, ToolContract.ToolContractError>, over?: object) =>
    Effect.flatMap(contractOf(over), (contract) =>
      ToolResolver.ToolResolver.pipe(
        Effect.flatMap(({ resolve }) => resolve(contract)),
        Effect.map((bound) => bound.contract),
        Effect.provide(resolver)
      )
    )
  const fromTool = (tool: Tool.Any) => boundTool.fromTool(tool, idle)
  const annotations = {
    title: "T",
    readonly: true,
    destructive: false,
    idempotent: true,
    openWorld: false,
    strict: true
  }
  const long = Tool.dynamic("t", { parameters: { type: "object", required: ["a".repeat(100)] } })
  const toolkit = Toolkit.make(long)
  const here = ToolResolver.layerToolkit(toolkit).pipe(Layer.provide(toolkit.toLayer({ t: () => Effect.void })))
  const none = ToolResolver.layerToolkit(Toolkit.empty)
  const cases: Cases = {
    "an empty name": contractOf({ name: "" }),
    "a name of spaces": contractOf({ name: "  " }),
    "a name with a lone surrogate": contractOf({ name: "a\ud800" }),
    "a name that every object has": contractOf({ name: "toString" }),
    "no time": contractOf({ timeout: 0 }),
    "less than no time": contractOf({ timeout: -1 }),
    "a time in other words": contractOf({ timeout: "soon" as never }),
    "parameters with a lone surrogate": contractOf({ parameters: { title: "\ud800" } }),
    "a name and parameters": contractOf(),
    "all parts": contractOf({
      description: "d",
      success: { type: "string" },
      failure: { type: "null" },
      timeout: Duration.infinity,
      approval: "always",
      annotations: { title: "T" }
    }),
    "a tool with all annotations": ToolContract.fromTool(
      Tool.make("t", { needsApproval: true })
        .annotate(Tool.Title, "T")
        .annotate(Tool.Readonly, true)
        .annotate(Tool.Destructive, false)
        .annotate(Tool.Idempotent, true)
        .annotate(Tool.OpenWorld, false)
        .annotate(Tool.Strict, true)
    ),
    "a tool whose parameters have no JSON Schema": ToolContract.fromTool(Tool.make("t", { parameters: noSchema })),
    "a tool whose success has no JSON Schema": ToolContract.fromTool(Tool.make("t", { success: noSchema })),
    "a tool whose failure has no JSON Schema": ToolContract.fromTool(Tool.make("t", { failure: noSchema })),
    "a tool whose parameters are no JSON Schema": fromTool(Tool.dynamic("t", { parameters: noJsonSchema })),
    "a tool whose parameters are no JSON Schema, under another contract": Effect.flatMap(contractOf(), (contract) =>
      boundTool.fromHandler(contract, Tool.dynamic("t", { parameters: noJsonSchema }), idle)
    ),
    "a tool whose parameters are Void": ToolContract.fromTool(Tool.make("t", { parameters: Schema.Void })),
    "a stub with all annotations": Effect.flatMap(stubOf({ annotations }), ({ tool }) => ToolContract.fromTool(tool)),
    "a stub with parameters that are no JSON Schema": stubOf({ parameters: noJsonSchema }),
    "a stub with a success that is no JSON Schema": stubOf({ success: noJsonSchema }),
    "a tool without a handler": boundTool.handlerOf(Tool.make("t")),
    "two tools of one name": Effect.flatMap(Effect.all([stubOf(), stubOf()]), boundTool.makeSet),
    "two tools of one name for the model": Effect.flatMap(
      Effect.all([stubOf({ name: "a/b" }), stubOf({ name: "a__b" })]),
      boundTool.makeSet
    ),
    "resolved: no tools": resolve(none),
    "resolved: another name": resolve(here, { name: "u" }),
    "resolved: another type": resolve(here, { parameters: { type: "array" } }),
    "resolved: a boolean for an object": resolve(here, { parameters: { ...long.jsonSchema, items: true } }),
    "resolved: a long value": resolve(here),
    "resolved: a value of 60 characters": resolve(here, { parameters: { type: "x".repeat(58) } }),
    "resolved: a value of 61 characters": resolve(here, { parameters: { type: "x".repeat(59) } }),
    "resolved: not a JSON Schema": resolve(ToolResolver.layerStubs(), { parameters: noJsonSchema })
  }
  yield* compare(cases, "contracts")
})

test("SOUND-7 results that are no result of the tool", quiet, function* () {
  const Amount = Schema.Struct({ amount: Schema.Int })
  const Even = Schema.Int.check(Schema.makeFilter((n) => n % 2 === 0, { expected: "an even number" }))
  const reason = new AiError.UnknownError({ description: "no" })
  const toolkit = Toolkit.make(
    Tool.make("amount", { parameters: Amount, success: Schema.Json }),
    Tool.make("fraction", { success: Schema.Int }),
    Tool.make("large", { success: Schema.String }),
    Tool.make("ai"),
    Tool.make("reason"),
    Tool.make("undeclared"),
    Tool.make("misfit", { failure: Schema.Int }),
    Tool.make("words", { failure: ToolFailure }),
    Tool.make("fields", { failure: Schema.Struct({ message: Schema.String }) }),
    Tool.make("refined", { parameters: Schema.Struct({ a: Even, b: Even }) }),
    Tool.make("deep", { success: Schema.Json }),
    Tool.make("poison", { success: Schema.Json }),
    Tool.make("nothing", { parameters: Schema.Void, success: Schema.Json }),
    Tool.dynamic("typed", { parameters: Schema.Struct({ at: Schema.DateTimeUtc }), success: Schema.Json }),
    Tool.dynamic("raw", { parameters, success: Schema.Json }),
    Tool.make("dies"),
    Tool.make("never"),
    Tool.make("asks", { needsApproval: () => Effect.never }),
    Tool.make("asksWrongly", { needsApproval: () => "yes" as never }),
    search
  )
  const set = yield* bind(toolkit, {
    amount: Effect.succeed,
    fraction: () => Effect.succeed(0.5),
    large: () => Effect.succeed("x".repeat(2000)),
    ai: () => Effect.fail(AiError.make({ module: "m", method: "n", reason })) as never,
    reason: () => Effect.fail(reason) as never,
    undeclared: () => Effect.fail("no") as never,
    misfit: () => Effect.fail(0.5),
    words: () => Effect.fail(ToolFailure.error("no", { type: "refused" })),
    fields: () => Effect.fail({ message: "no" }),
    refined: () => Effect.void,
    deep: () => Effect.succeed([[[]]]),
    poison: () => Effect.succeed(JSON.parse(`{"__proto__":1}`)),
    nothing: (args: unknown) => Effect.succeed(`got ${String(args)}`),
    typed: ({ at }: { readonly at: unknown }) => Effect.succeed(DateTime.isDateTime(at)),
    raw: (args: unknown) => Effect.succeed(args as Schema.Json),
    dies: () => Effect.die(new TypeError("boom")),
    never: () => Effect.never,
    asks: () => Effect.void,
    asksWrongly: () => Effect.void
  })
  const run = (name: string, args: Schema.Json = {}, options?: Parameters<typeof call>[3]) =>
    after("1 minute", call(set, name, args, options))
  const described = (name: string) =>
    Effect.flatMap(calls(set, name), (batch) => toolCall.run(batch, { defects: "describe" }))
  const limits = yield* Limits.Limits
  const approval = (name: string) =>
    after("1 minute", set.tools.get(name)!.needsApproval({}, { callId: "1", context: {}, messages: [] }))
  const stubs = yield* boundTool.makeSet([yield* stubOf({ success: { type: "integer" } })])
  const stub = (result: ToolResult.ToolResult) =>
    Effect.provide(call(stubs, "t", {}), ToolRuntime.layer({ dispatch: () => Effect.succeed(result) }))
  const cases: Cases = {
    "an unknown tool": run("nope"),
    "an unknown tool of an empty set": call(yield* boundTool.makeSet([]), "nope", {}),
    "a tool of the provider": run("search"),
    "arguments that are not JSON": run("amount", "{"),
    "arguments that are no object": run("amount", "[]"),
    "arguments that do not fit": run("amount", { amount: "x" }),
    "arguments that fit": run("amount", { amount: 1 }),
    "arguments that only the Schema refuses": run("refined", { a: 1, b: 3 }),
    "arguments for none": run("nothing", { a: 1 }),
    "arguments of a dynamic tool with a Schema": run("typed", { at: "2026-01-01T00:00:00.000Z" }),
    "arguments of a dynamic tool with a JSON Schema": run("raw", { a: [1] }),
    "a result that does not fit": run("fraction"),
    "a result that does not fit, where defects are described": described("fraction"),
    "a result with a key that no payload may have": run("poison"),
    "a result beyond the depth": Effect.provideService(run("deep"), Limits.Limits, { ...limits, maxDepth: 2 }),
    "a result beyond the limits": Effect.provideService(run("large"), Limits.Limits, {
      ...limits,
      maxStringLength: 1000
    }),
    "an AiError": run("ai"),
    "the reason of an AiError": run("reason"),
    "a failure that is not declared": run("undeclared"),
    "a failure that does not fit": run("misfit"),
    "a failure in words": run("words"),
    "a failure with a message that is no error": run("fields"),
    "a defect": run("dies"),
    "a defect, described": described("dies"),
    "ten seconds": run("never"),
    "one second": run("never", {}, { timeout: "1 second" }),
    "an approval that is not decided in time": approval("asks"),
    "an approval that is neither true nor false": approval("asksWrongly"),
    "a stub without a runtime": call(stubs, "t", {}),
    "a result from elsewhere": stub(ToolResult.success(1)),
    "a result from elsewhere that does not fit": stub(ToolResult.success("x")),
    "a failure from elsewhere": stub(ToolResult.failure("refused", "no")),
    "no result from elsewhere": stub("no" as never),
    "no result from elsewhere, but an object": stub({} as never),
    "a failure of the runtime": Effect.provide(
      toolCall.run(yield* calls(stubs, "t"), { defects: "describe" }),
      ToolRuntime.layer({ dispatch: () => Effect.fail("no") as never })
    ),
    "no body, where defects are described": toolCall.run(yield* calls(stubs, "t"), { defects: "describe" }),
    "an empty batch": toolCall.run([]),
    "the handler of an offered tool": Effect.catchDefect(
      Effect.flatMap(set.toolkit.handle("amount", {}), Stream.runCollect),
      Effect.fail
    ),
    "a result that an error carries": Effect.fail(boundTool.carryResult("t", ToolResult.failure("refused", "no"))),
    "the references that a call brings": RunContext.CallReferences,
    "a context without its keys": Effect.provideService(
      RunContext.read(Schema.Struct({ a: Schema.String, b: Schema.Struct({ c: Schema.String }), d: Schema.String })),
      RunContext.RunContext,
      { b: {}, d: 1 }
    ),
    "a context without a key": RunContext.read(Schema.Struct({ a: Schema.String })),
    "a context with a wrong value": Effect.provideService(RunContext.read(Amount), RunContext.RunContext, {
      amount: "x"
    })
  }
  yield* compare(cases, "results")
})

describe("SOUND-7 remote tools, without a network", () => {
  const server = (options?: Partial<ServerOptions>) =>
    Effect.map(
      Effect.acquireRelease(
        Effect.sync(() =>
          HttpRouter.toWebHandler(routes(options).pipe(Layer.provide([Probe.layer, HttpServer.layerServices, quiet])), {
            disableLogger: true
          })
        ),
        ({ dispose }) => Effect.promise(dispose)
      ),
      ({ handler }) =>
        (path: string, init?: RequestInit) =>
          Effect.promise(async () => {
            const headers = { authorization: "Bearer s3cret", "content-type": "application/json", ...init?.headers }
            const response = await handler(new Request(`http://a${path}`, { ...init, headers }), Context.empty())
            return [response.status, response.headers.get("content-type"), await response.json()]
          })
    )

  const request = { protocol: 1, runId: "r", callId: "c", name: "get_order", arguments: { id: "7" } }

  test.live("the answers of a server", function* () {
    const send = yield* server({ limits: { maxBytes: 1000 } })
    const nested = yield* server({ path: "/a/" })
    const denying = yield* server({ context: () => Effect.fail(new RemoteTools.Denied({ message: "no" })) })
    const dying = yield* server({ context: () => Effect.die("no") })
    const terse = yield* server({ limits: { maxStringLength: 300 } })
    const text = (body: string, headers: Record<string, string> = {}, to = send) =>
      to("/tools/execute", { method: "POST", body, headers })
    const post = (over: object, to = send) => text(JSON.stringify({ ...request, ...over }), {}, to)
    const build = (options: Partial<ServerOptions>) =>
      Effect.scoped(
        Layer.build(routes(options).pipe(Layer.provide([HttpRouter.layer, Probe.layer, HttpServer.layerServices])))
      )
    const items = ["x", "y"].map((sku) => ({ sku: sku.repeat(200), qty: 1 }))
    const cases: Cases = {
      "a result": post({}),
      "a failure": post({ arguments: { id: "0" } }),
      "an unknown tool": post({ name: "nope" }),
      "a result that may not be sent": post({ name: "report", arguments: { items } }, terse),
      "no time left": post({ timeLeft: 0 }),
      "an hour left": post({ timeLeft: 3_600_000 }),
      "another token": text("{}", { authorization: "Bearer no" }),
      "another media type": text("{}", { "content-type": "text/plain" }),
      "not JSON": text("{"),
      "not an object": text("[]"),
      "missing keys": post({ runId: undefined, callId: 3 }),
      "an unknown key": post({ more: 1 }),
      "protocol 2": post({ protocol: 2 }),
      "protocol true": post({ protocol: true }),
      "a large body": text(" ".repeat(1001)),
      "a body at the limit": text(" ".repeat(1000)),
      "a body at the limit, with its length": text(" ".repeat(1000), { "content-length": "1000" }),
      "a body that is cut": send("/tools/execute", {
        method: "POST",
        body: new ReadableStream({ pull: (controller) => controller.error(new Error("cut")) }),
        // fetch requires it, its types do not have it
        ...({ duplex: "half" } as object)
      }),
      "another contract": post({ contractDigest: "sha256:00" }),
      "a refused context": post({}, denying),
      "a context function that dies": post({}, dying),
      "an unknown endpoint": send("/tools/nope"),
      "an unknown method": send("/tools", { method: "PUT", body: "{}" }),
      "an unknown endpoint below another path": nested("/a/tools/nope"),
      "no token": build({ token: {} }),
      "an empty token": build({ token: { alice: Redacted.make(" ") } }),
      "the token of another": build({ token: { alice: Redacted.make("a"), bob: Redacted.make("a") } }),
      "no time for a body": build({ bodyTimeout: 0 }),
      "the tools below another path": Effect.map(nested("/a/tools"), ([status, type]) => [status, type])
    }
    yield* compare(cases, "server")
  })

  test("the results of a client", function* () {
    const contract = yield* ToolContract.fromTool(Tools.tools.get_order)
    const stub = yield* boundTool.makeSet([yield* boundTool.makeStub(contract)])
    const report = yield* ToolContract.fromTool(Tools.tools.report)
    const reports = yield* boundTool.makeSet([yield* boundTool.makeStub(report)])
    type Options = Parameters<typeof RemoteTools.layerRuntime>[0]
    type Answer = (
      request: Parameters<Parameters<typeof HttpClient.make>[0]>[0]
    ) => ReturnType<Parameters<typeof HttpClient.make>[0]>
    const clientOf = (answer: Answer) =>
      Layer.succeed(
        HttpClient.HttpClient,
        HttpClient.make((request) => answer(request))
      )
    const defaults = { url: "http://a/b//", token, retry: Schedule.recurs(1) }
    const dispatch = (answer: Answer, options?: Partial<Options>) =>
      call(stub, "get_order", { id: "7" }).pipe(
        Effect.provide(Layer.provide(RemoteTools.layerRuntime({ ...defaults, ...options }), clientOf(answer)))
      )
    const Odd = Tool.make("odd", {
      parameters: Schema.Struct({ n: Schema.Int }),
      success: Schema.Int,
      failure: Schema.Int
    })
    const odd = (answer: Answer, n: number) =>
      Effect.flatMap(Toolkit.make(Odd), (toolkit) =>
        Effect.flatMap(toolkit.handle("odd", { n }), Stream.runCollect)
      ).pipe(Effect.provide(Layer.provide(RemoteTools.layerHandlers(Toolkit.make(Odd), defaults), clientOf(answer))))
    const answered =
      (status: number, body: unknown): Answer =>
      (request) =>
        Effect.succeed(
          HttpClientResponse.fromWeb(
            request,
            new Response(typeof body === "string" ? body : JSON.stringify(body), { status })
          )
        )
    const sent = (send: (answer: Answer) => Effect.Effect<unknown, unknown>) =>
      Effect.gen(function* () {
        const seen: Array<unknown> = []
        const answer: Answer = (request) => {
          const { body, method, url } = request
          const { b3: _, traceparent: __, ...headers } = request.headers
          seen.push(
            method,
            url,
            headers,
            JSON.parse(body._tag === "Uint8Array" ? new TextDecoder().decode(body.body) : "")
          )
          return answered(418, "")(request)
        }
        yield* Effect.exit(send(answer))
        return seen
      })
    const refused = (status: number, _tag: string, more?: object) =>
      dispatch(answered(status, { _tag, message: "why s3cret", ...more }))
    const failed = (cause: unknown) =>
      dispatch((request) =>
        Effect.fail(
          new HttpClientError.HttpClientError({ reason: new HttpClientError.TransportError({ request, cause }) })
        )
      )
    const nested = (depth: number): object => (depth === 0 ? { code: "EAI_AGAIN" } : { cause: nested(depth - 1) })
    const result = ToolResult.success({ id: "7", at: "1970-01-01T00:00:00.000Z" })
    const answer = (over: object) => answered(200, { protocol: 1, callId: "call_1", result, ...over })
    const open = (options: Partial<Options>) => dispatch(answer({}), options)
    const cases: Cases = {
      "a result": dispatch(answer({})),
      "a failure": dispatch(answer({ result: ToolResult.failure("refused", "no") })),
      "a result of another call": dispatch(answer({ callId: "call_2" })),
      "a result that does not fit": dispatch(answer({ result: ToolResult.success(1) })),
      "an answer that is not JSON": dispatch(answered(200, "hello")),
      "an answer beyond the limit": dispatch(answer({ more: "x".repeat(1000) }), { limits: { maxBytes: 500 } }),
      InvalidRequest: refused(400, "InvalidRequest", { issues: [] }),
      UnsupportedProtocol: refused(400, "UnsupportedProtocol", { found: "1", supported: [2] }),
      Unauthorized: refused(401, "Unauthorized"),
      Denied: refused(403, "Denied"),
      "Denied without a message": dispatch(answered(403, { _tag: "Denied", message: "" })),
      "Denied in 500 characters": dispatch(answered(403, { _tag: "Denied", message: "x".repeat(500) })),
      "Denied in 501 characters": dispatch(answered(403, { _tag: "Denied", message: "x".repeat(501) })),
      UnknownEndpoint: refused(404, "UnknownEndpoint"),
      RequestTimeout: refused(408, "RequestTimeout"),
      ContractMismatch: refused(409, "ContractMismatch", { tool: "t", expected: "a", found: "b" }),
      RequestTooLarge: refused(413, "RequestTooLarge", { limit: 1 }),
      UnsupportedMediaType: refused(415, "UnsupportedMediaType"),
      InternalError: refused(500, "InternalError"),
      ...Object.fromEntries(
        [201, 400, 401, 403, 404, 408, 409, 413, 415, 499, 500, 599].map((status) => [
          `status ${status} of a proxy`,
          dispatch(answered(status, "<html>"))
        ])
      ),
      "no connection": failed({ code: "ECONNREFUSED" }),
      "no connection, by the cause of the cause": failed({ cause: { syscall: "connect" } }),
      "no connection to any address": failed({ errors: [{ code: "ENOTFOUND" }, { syscall: "getaddrinfo" }] }),
      "one address of two was connected to": failed({ errors: [{ code: "ENOTFOUND" }, {}] }),
      "no addresses": failed({ errors: [] }),
      "no addresses, and a cause": failed({ errors: [], cause: { code: "ECONNREFUSED" } }),
      "no connection, eight causes below": failed(nested(8)),
      "no connection, nine causes below": failed(nested(9)),
      "a connection that was cut": failed({ code: "ECONNRESET" }),
      "an error without a cause": failed(undefined),
      "an error whose cause is null": failed(null),
      "an error whose cause is a text": failed("ECONNREFUSED"),
      "a request that cannot be made": dispatch((request) =>
        Effect.fail(new HttpClientError.HttpClientError({ reason: new HttpClientError.InvalidUrlError({ request }) }))
      ),
      "a request that cannot be encoded": dispatch((request) =>
        Effect.fail(new HttpClientError.HttpClientError({ reason: new HttpClientError.EncodeError({ request }) }))
      ),
      "a call that is too large": dispatch(answer({}), { limits: { maxBytes: 50 } }),
      "a call that is too deep": dispatch(answer({}), { limits: { maxDepth: 1 } }),
      "no answer": after(
        "1 minute",
        dispatch(() => Effect.never)
      ),
      "what a runtime sends": sent(dispatch),
      "what a runtime with a time limit sends": sent((answer) =>
        Effect.provide(
          call(stub, "get_order", { id: "7" }, { timeout: "2 seconds", context: { tenant: "a" } }),
          Layer.provide(RemoteTools.layerRuntime(defaults), clientOf(answer))
        )
      ),
      "what a runtime sends once, although the tool is idempotent": sent((answer) =>
        Effect.provide(
          call(reports, "report", { items: [] }),
          Layer.provide(RemoteTools.layerRuntime(defaults), clientOf(answer))
        )
      ),
      "what a handler sends": sent((answer) => odd(answer, 1)),
      "what a handler of a call sends": sent((answer) =>
        Effect.flatMap(boundTool.fromToolkit(Toolkit.make(Odd)), boundTool.makeSet).pipe(
          Effect.zipWith(Clock.currentTimeMillis, (set, now) =>
            call(set, "odd", { n: 1 }, { deadline: now + 3000, context: { tenant: "a" } })
          ),
          Effect.flatten,
          Effect.provide(Layer.provide(RemoteTools.layerHandlers(Toolkit.make(Odd), defaults), clientOf(answer)))
        )
      ),
      "handlers: a result": odd(answer({ callId: "", result: ToolResult.success(1) }), 1),
      "handlers: a result that does not fit": odd(answer({ callId: "", result: ToolResult.success("x") }), 1),
      "handlers: a failure": odd(answer({ callId: "", result: ToolResult.failure("execution_error", "no", 3) }), 1),
      "handlers: a failure that does not fit": odd(
        answer({ callId: "", result: ToolResult.failure("x", "no", "y") }),
        1
      ),
      "handlers: a failure without a value": odd(answer({ callId: "", result: ToolResult.failure("x", "no") }), 1),
      "handlers: a failure of the runtime": odd(
        answer({ callId: "", result: ToolResult.failure("denied", "no", 3) }),
        1
      ),
      "handlers: arguments that do not fit": odd(answer({}), 0.5),
      "a URL that is none": open({ url: "nope" }),
      "a URL of a file": open({ url: "file:///etc" }),
      "a URL with a user": open({ url: "http://u@a" }),
      "a URL with a password": open({ url: "http://:p@a" }),
      https: open({ url: new URL("https://a/") }),
      "an empty token": open({ token: Redacted.make("") }),
      "a token with a line break": open({ token: Redacted.make("a\n") })
    }
    yield* compare(cases, "client")
  })
})
