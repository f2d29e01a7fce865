import { assert } from "@effect/vitest"
import { Effect, type Layer, Result } from "effect"
import { BoundCall, type BoundTool, RunContext, ToolBatch, ToolResolver, ToolResult, ToolRuntime, ToolSet } from "effect-emissary"
import * as fixtures from "../fixtures.ts"
import type { Json, Run } from "../golden.ts"
import { toJson } from "../golden.ts"

interface Given {
  readonly tools: ReadonlyArray<fixtures.Fixture>
  readonly calls: ReadonlyArray<{ readonly id: string; readonly name: string; readonly arguments: string }>
  readonly runtime: { readonly kind: string; readonly max_concurrency?: number | "unlimited" }
  readonly context?: Json
  readonly wire?: {
    readonly tools: ReadonlyArray<{
      readonly name: string
      readonly description: string
      readonly parameters_schema: Json
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

const textOf = (given: Given, id: string | undefined): string =>
  given.calls.find((call) => call.id === id)?.arguments ?? ""

const contractsOf = ({ tools, wire }: Given) =>
  fixtures.contractsOf(
    wire?.tools.map(({ description, name, parameters_schema: parameters, timeout: timeout_seconds }) => ({
      name,
      description,
      parameters,
      timeout_seconds
    })) ?? tools
  )

const bind = (given: Given, probe: fixtures.Probe) =>
  Effect.gen(function* () {
    const contracts = yield* contractsOf(given)
    const tools = yield* Effect.forEach(contracts, (contract): Effect.Effect<BoundTool.BoundTool, unknown> => {
      const fixture = given.tools.find((tool) => tool.name === contract.name)
      if (fixture === undefined || given.runtime.kind === "remote") {
        return Effect.flatMap(ToolResolver.ToolResolver, (resolver) => resolver.resolve(contract)).pipe(
          Effect.provide(ToolResolver.layerShells)
        )
      }
      return fixtures.bind(contract, fixture, probe, (id) => textOf(given, id))
    })
    return yield* ToolSet.make(tools)
  })

/**
 * The forwarding function of a remote case: it answers by the fixture's behaviour.
 * The margin is nothing, because it is the owner of the tools as well.
 */
const remote = (given: Given, probe: fixtures.Probe) =>
  ToolRuntime.make({
    margin: 0,
    dispatch: (call) => {
      const fixture = given.tools.find((tool) => tool.name === call.contract.name)
      if (fixture === undefined) return Effect.die(new Error(`no fixture for ${call.contract.name}`))
      if (fixture.behaviour.returns_raw !== undefined) return fixtures.raw(fixture.behaviour.returns_raw)
      return fixtures.body(fixture, call.arguments, textOf(given, call.id), probe).pipe(
        Effect.provideService(RunContext.RunContext, call.context),
        Effect.match({
          onFailure: (failure) => ToolResult.failure(failure.type, failure.message),
          onSuccess: (value) => ToolResult.success(toJson(value))
        })
      )
    }
  })

const layerOf = (given: Given, probe: fixtures.Probe): Layer.Layer<never> => {
  const { kind, max_concurrency: most } = given.runtime
  if (kind === "remote") return ToolRuntime.layer(remote(given, probe))
  return kind === "inline"
    ? ToolRuntime.layerInline
    : ToolRuntime.layerConcurrent({ maxConcurrency: most === "unlimited" ? "unbounded" : most })
}

const results = (given: Given, probe: fixtures.Probe) =>
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
    const probe = fixtures.makeProbe()
    const actual = yield* results(given, probe)
    assert.lengthOf(actual, expect.results.length)
    expect.results.forEach((expected, index) => {
      assert.strictEqual(given.calls[index]?.id, expected.id)
      compare(expected, actual[index])
    })
    if (expect.max_in_flight !== undefined) assert.strictEqual(probe.most, expect.max_in_flight)
  })
