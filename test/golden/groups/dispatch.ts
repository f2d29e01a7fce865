import { assert } from "@effect/vitest"
import { Context, Effect, type Layer, Option, Result, Schema } from "effect"
import { Tool } from "effect/ai"
import {
  BoundCall,
  BoundTool,
  RunContext,
  ToolBatch,
  ToolContract,
  ToolFailure,
  ToolResolver,
  ToolResult,
  ToolRuntime,
  ToolSet
} from "effect-emissary"
import type { Json, Run } from "../golden.ts"
import { toJson } from "../golden.ts"

type Object_ = { readonly [key: string]: Schema.Json }

interface Fixture {
  readonly name: string
  readonly description?: string
  readonly parameters?: Object_
  readonly timeout_seconds?: number
  readonly behaviour: Behaviour
}

interface Behaviour {
  readonly text?: Schema.Json
  readonly json?: Schema.Json
  readonly error?: { readonly message: string; readonly type?: string }
  readonly throw?: { readonly message: string }
  readonly defect?: { readonly class: string; readonly message: string }
  readonly hang_seconds?: number
  readonly returns_raw?: Schema.Json
}

interface Given {
  readonly tools: ReadonlyArray<Fixture>
  readonly calls: ReadonlyArray<{ readonly id: string; readonly name: string; readonly arguments: string }>
  readonly runtime: { readonly kind: string; readonly max_concurrency?: number | "unlimited" }
  readonly context?: Object_
  readonly wire?: {
    readonly tools: ReadonlyArray<{
      readonly name: string
      readonly description: string
      readonly parameters_schema: Object_
      readonly timeout: number
    }>
  }
}

interface Expected {
  readonly results: ReadonlyArray<{
    readonly id: string
    readonly content?: string
    readonly error_type?: string
    readonly error?: string
    readonly mentions?: ReadonlyArray<string>
  }>
  readonly max_in_flight?: number
}

/** Without `parameters` arguments pass unchecked. */
const anything: Object_ = { type: "object" }

const plain = (value: Schema.Json | undefined): string =>
  typeof value === "string" ? value : value === undefined ? "" : JSON.stringify(value)

const lookup = (value: Schema.Json | undefined, path: string): Schema.Json | undefined =>
  path
    .split(".")
    .reduce<Schema.Json | undefined>(
      (current, key) => (typeof current === "object" && current !== null ? (current as Object_)[key] : undefined),
      value
    )

const fill = (template: string, args: Object_, text: string, context: Object_): string =>
  template.replaceAll(/\{([^{}]+)\}/g, (_, key: string) => {
    if (key === "$arguments") return text
    return key.startsWith("context.") ? plain(lookup(context, key.slice("context.".length))) : plain(lookup(args, key))
  })

const named = (name: string, message: string): Error =>
  new ({ [name]: class extends Error {} }[name] ?? Error)(message)

interface Probe {
  running: number
  most: number
}

const body = (
  behaviour: Behaviour,
  args: Object_,
  text: string,
  probe: Probe
): Effect.Effect<unknown, ToolFailure> => {
  const act = Effect.gen(function* () {
    const context = yield* RunContext.RunContext
    if (behaviour.hang_seconds !== undefined) yield* Effect.sleep(`${behaviour.hang_seconds * 1000} millis`)
    if (behaviour.defect !== undefined) return yield* Effect.die(named(behaviour.defect.class, behaviour.defect.message))
    if (behaviour.error !== undefined) {
      return yield* ToolFailure.error(behaviour.error.message, { type: behaviour.error.type })
    }
    if (behaviour.throw !== undefined) return yield* ToolFailure.error(behaviour.throw.message)
    if (behaviour.json !== undefined) return behaviour.json
    return fill(plain(behaviour.text), args, text, context)
  })
  return Effect.suspend(() => {
    probe.running += 1
    probe.most = Math.max(probe.most, probe.running)
    return Effect.ensuring(
      act,
      Effect.sync(() => {
        probe.running -= 1
      })
    )
  })
}

/** A result made by hand, which the types of a handler do not allow. */
const raw = (value: Schema.Json): Effect.Effect<never> => JSON.parse(JSON.stringify(value))

const textOf = (given: Given, id: string | undefined): string =>
  given.calls.find((call) => call.id === id)?.arguments ?? ""

const handlerOf = (
  given: Given,
  tool: Tool.Any,
  { behaviour }: Fixture,
  probe: Probe
): Effect.Effect<Tool.Handler<string>> =>
  Effect.gen(function* () {
    const context = yield* Effect.context<never>()
    const handlers = new Map<string, unknown>([
      [
        tool.id,
        {
          name: tool.name,
          context,
          handler: (args: Object_, call: { readonly toolCallId?: string }) =>
            behaviour.returns_raw === undefined
              ? body(behaviour, args, textOf(given, call.toolCallId), probe)
              : raw(behaviour.returns_raw)
        }
      ]
    ])
    return yield* BoundTool.handlerOf(tool).pipe(
      Effect.map(Option.getOrThrow),
      Effect.provideContext(Context.makeUnsafe<never>(handlers)),
      Effect.orDie
    )
  })

const toolOf = (name: string, description: string, parameters: Object_): Tool.Any =>
  Tool.dynamic(name, { description, parameters, success: Schema.Json, failure: ToolFailure })

const contractsOf = (given: Given) =>
  Effect.forEach(
    given.wire === undefined
      ? given.tools.map((tool) => ({
          name: tool.name,
          description: tool.description ?? tool.name,
          parameters: tool.parameters ?? anything,
          timeout: tool.timeout_seconds
        }))
      : given.wire.tools.map((tool) => ({
          name: tool.name,
          description: tool.description,
          parameters: tool.parameters_schema,
          timeout: tool.timeout
        })),
    ({ timeout, ...contract }) =>
      ToolContract.make({ ...contract, timeout: timeout === undefined ? undefined : `${timeout * 1000} millis` })
  )

const bind = (given: Given, probe: Probe) =>
  Effect.gen(function* () {
    const contracts = yield* contractsOf(given)
    const tools = yield* Effect.forEach(contracts, (contract): Effect.Effect<BoundTool.BoundTool, unknown> => {
      const fixture = given.tools.find((tool) => tool.name === contract.name)
      if (fixture === undefined || given.runtime.kind === "remote") {
        return Effect.flatMap(ToolResolver.ToolResolver, (resolver) => resolver.resolve(contract)).pipe(
          Effect.provide(ToolResolver.layerShells)
        )
      }
      const tool = toolOf(contract.name, contract.description ?? "", contract.parameters)
      return Effect.flatMap(handlerOf(given, tool, fixture, probe), (handler) => BoundTool.local(contract, tool, handler))
    })
    return yield* ToolSet.make(tools)
  })

/**
 * The forwarding function of a remote case: it answers by the fixture's behaviour.
 * The margin is nothing, because it is the owner of the tools as well.
 */
const remote = (given: Given, probe: Probe) =>
  ToolRuntime.make({
    margin: 0,
    dispatch: (call) => {
      const fixture = given.tools.find((tool) => tool.name === call.contract.name)
      if (fixture === undefined) return Effect.die(new Error(`no fixture for ${call.contract.name}`))
      if (fixture.behaviour.returns_raw !== undefined) return raw(fixture.behaviour.returns_raw)
      return body(fixture.behaviour, call.arguments, textOf(given, call.id), probe).pipe(
        Effect.provideService(RunContext.RunContext, call.context),
        Effect.match({
          onFailure: (failure) => ToolResult.failure(failure.type, failure.message),
          onSuccess: (value) => ToolResult.success(toJson(value))
        })
      )
    }
  })

const layerOf = (given: Given, probe: Probe): Layer.Layer<never> => {
  const { kind, max_concurrency: most } = given.runtime
  if (kind === "remote") return ToolRuntime.layer(remote(given, probe))
  return kind === "inline"
    ? ToolRuntime.layerInline
    : ToolRuntime.layerConcurrent({ maxConcurrency: most === "unlimited" ? "unbounded" : most })
}

const results = (given: Given, probe: Probe) =>
  Effect.gen(function* () {
    const set = yield* bind(given, probe)
    const prepared = yield* Effect.forEach(given.calls, (call) =>
      BoundCall.prepare(set, call, { runId: "golden", context: given.context })
    )
    const ran = yield* ToolBatch.collect(prepared.filter(Result.isSuccess).map((call) => call.success))
    let next = 0
    return prepared.map((call) => (Result.isSuccess(call) ? ran[next++] : call.failure))
  }).pipe(Effect.provide(layerOf(given, probe)))

const compare = (expected: Expected["results"][number], actual: ToolResult.ToolResult | undefined): void => {
  if (actual === undefined) return assert.fail(`call ${expected.id}: no result`)
  const text = ToolResult.text(actual)
  assert.strictEqual(ToolResult.isFailure(actual) ? actual.type : undefined, expected.error_type, text)
  if (expected.content !== undefined) assert.strictEqual(text, expected.content)
  if (expected.error !== undefined) assert.strictEqual(ToolResult.isFailure(actual) ? actual.message : "", expected.error)
  for (const mention of expected.mentions ?? []) assert.include(text, mention)
}

export const run: Run = (givenJson, expectJson) =>
  Effect.gen(function* () {
    // the vocabulary fixes the form of the cases of this group
    const given = givenJson as unknown as Given & Json
    const expect = expectJson as unknown as Expected & Json
    const probe: Probe = { running: 0, most: 0 }
    const actual = yield* results(given, probe)
    assert.lengthOf(actual, expect.results.length)
    expect.results.forEach((expected, index) => {
      assert.strictEqual(given.calls[index]?.id, expected.id)
      compare(expected, actual[index])
    })
    if (expect.max_in_flight !== undefined) assert.strictEqual(probe.most, expect.max_in_flight)
  })
