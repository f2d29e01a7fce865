/** The checks of cases in the vocabulary, one function for each kind of `given`. */
import { assert } from "@effect/vitest"
import { Effect, Option, Result, Schema } from "effect"
import { VersionedStore } from "effect-emissary"
import { Plan } from "effect-emissary/plan"
import { Session } from "effect-emissary/session"
import { type Case, equal, isObject, JsonObject, matchError, mentions, optional, read } from "../family.ts"
import { equalResults, equalRuns } from "./compare.ts"
import { makeTargets, type Trace } from "./fixtures.ts"
import * as kept from "./kept.ts"
import { inputOf, load, observed, registry } from "./run.ts"
import * as V from "./vocabulary.ts"

/** A refusal of the expected kind that mentions what it has to, or none. */
const meetsRefusal = (result: Result.Result<unknown, { readonly message: string }>, expect: V.Refusal): void => {
  if (expect.RAISED === undefined) {
    assert.isTrue(expect.OK, "expected either OK or RAISED")
    return assert(Result.isSuccess(result), Result.isFailure(result) ? result.failure.message : "")
  }
  assert(Result.isFailure(result), "expected a refusal")
  matchError(result.failure, { kind: expect.RAISED, mentions: expect["our message must mention"] ?? [] })
}

const Roundtrip = Schema.Struct({ "from_dict then to_dict": JsonObject, "registry predicates": optional(JsonObject) })
const Saved = Schema.Struct({ to_dict: Schema.Json })

/** Load and save without any code: arrays and keys in order. */
const roundtrip = Effect.fnUntraced(function* (golden: Case) {
  const { "from_dict then to_dict": wire } = yield* read(Roundtrip)(golden.given)
  const loaded = yield* Effect.result(Plan.codec.decode(wire))
  if ("RAISED" in golden.expect) return meetsRefusal(loaded, yield* read(V.Refusal)(golden.expect))
  const { to_dict: saved } = yield* read(Saved)(golden.expect)
  const definition = yield* Effect.fromResult(loaded)
  const written = yield* Plan.codec.encode(definition, { version: 2 }).pipe(
    // The order in which routes are tried is lost, as recorded: refused unless that is allowed.
    Effect.catchTag("LossyEncoding", (error) => {
      for (const { path } of error.losses) assert.match(path, /\/routes$/)
      return Plan.codec.encode(definition, { version: 2, allowLoss: error.losses })
    })
  )
  assert.strictEqual(JSON.stringify(written), JSON.stringify(saved === "identical to input" ? wire : saved))
})

const Loading = Schema.Struct({ from_dict: JsonObject, "registry keys": optional(Schema.Array(Schema.String)) })

/** Load with a registry of exactly the given keys, or of every name. */
const loading = Effect.fnUntraced(function* (golden: Case) {
  const { from_dict: wire, "registry keys": keys } = yield* read(Loading)(golden.given)
  const has = new Set(keys)
  const predicates = Object.fromEntries([...has].filter((key) => key.startsWith("routes:")).map((key) => [key, "never"]))
  const full = registry(wire, makeTargets([], {}), [], predicates)
  const only = <A>(entries: { readonly [name: string]: A }): { readonly [name: string]: A } =>
    keys === undefined
      ? entries
      : Object.fromEntries(Object.entries(entries).filter(([name]) => has.has(name) || has.has(`type:${name}`)))
  const loaded = yield* Effect.result(
    Plan.decode(wire, { targets: only(full.targets), predicates: full.predicates, schemas: only(full.schemas) })
  )
  meetsRefusal(loaded, yield* read(V.Refusal)(golden.expect))
})

const References = Schema.Struct({ steps: Schema.Json })
const Problems = Schema.Struct({ errors: optional(Schema.Array(Schema.String)), RAISED: optional(Schema.String) })

const quoted = (message: string): ReadonlyArray<string> =>
  Array.from(message.matchAll(/'([^']*)'/g), ([, name = ""]) => name).filter((name) => name !== "")

/** One problem for one, each naming what the recorded one names. */
const references = Effect.fnUntraced(function* (golden: Case) {
  const { steps } = yield* read(References)(golden.given)
  const { errors, RAISED } = yield* read(Problems)(golden.expect)
  assert(errors !== undefined, `expected a list of problems, not ${RAISED}`)
  const problems = Plan.danglingReferences(steps)
  assert.strictEqual(problems.length, errors.length, JSON.stringify(problems))
  for (const [index, message] of errors.entries()) mentions(JSON.stringify(problems[index]), quoted(message))
})

/** Load, check and bind. */
const compile = Effect.fnUntraced(function* (golden: Case) {
  const world = yield* read(V.World)(golden.given)
  meetsRefusal(yield* Effect.result(load(world)), yield* read(V.Refusal)(golden.expect))
})

/** Load, bind and run. */
const run = Effect.fnUntraced(function* (golden: Case) {
  const given = yield* read(V.Running)(golden.given)
  const trace: Trace = []
  const result = yield* load(given, trace).pipe(
    Effect.matchEffect({
      onFailure: ({ _tag, message }) => Effect.succeed({ RAISED: _tag, message }),
      onSuccess: ({ bound, model }) =>
        Plan.run(bound, inputOf(given.input, "seed")).pipe(
          Effect.result,
          Effect.map((ran) => observed(ran, trace)),
          Effect.provide(model)
        )
    })
  )
  equalRuns({ trace, result }, yield* read(V.Observed)(golden.expect), given.plan)
})

/** Runs all inputs; the results are in their order. */
const many = Effect.fnUntraced(function* (golden: Case) {
  const given = yield* read(V.Many)(golden.given)
  const expect = yield* read(V.ExpectedMany)(golden.expect)
  const trace: Trace = []
  const inputs = given.run_many.map((value) => inputOf(value, ""))
  // Zero and null are "no limit" in the recordings, and "unbounded" here.
  const concurrency = given.concurrency || ("unbounded" as const)
  const key = given.checkpoint_key
  const running = Effect.gen(function* () {
    const loaded = yield* load(given, trace)
    if (key !== undefined) {
      const { bound, model } = loaded
      const keepOne = (input: (typeof inputs)[number], index: number) => {
        // A fork is a job under a key of its own
        const id = given.on_concurrent === "fork" ? `${key}:${index}` : key
        return kept.seen(bound, id, trace, kept.begin(bound, id, input))
      }
      return yield* kept.process(bound, model, Effect.forEach(inputs, keepOne, { concurrency }))
    }
    const ran = yield* Effect.provide(Plan.runMany(loaded.bound, inputs, { concurrency }), loaded.model)
    const [first] = ran
    if (first !== undefined && Result.isFailure(first) && first.failure.reason._tag === "OptionsInvalid")
      return yield* Effect.fail(first.failure)
    return ran.map((result) => observed(result, trace))
  }).pipe(Effect.provide(VersionedStore.layerMemory))
  const { RAISED: whole, results } = expect
  const refused = results !== undefined && "RAISED" in results ? results.RAISED : whole
  if (refused !== undefined) {
    // A defect counts: an option that no type allows is a mistake of the program.
    const exit = yield* Effect.exit(running)
    return assert.strictEqual(exit._tag, "Failure", `expected ${refused}`)
  }
  const wanted = Array.isArray(results) ? results : []
  const found = yield* running
  assert.strictEqual(found.length, wanted.length)
  for (const [index, result] of found.entries()) equalResults(result, wanted[index], given.plan)
})

/** The recorded checkpoint after a phase: where none is given, the checkpoint of the last stored snapshot. */
const recordedCheckpoint = (expected: V.ExpectedPhases["phases"][number]): Schema.Json | undefined => {
  const snapshot = expected["store ops"]?.findLast((operation) => "cas" in operation)
  return expected.checkpoint ?? (snapshot !== undefined && "new" in snapshot ? snapshot.new : undefined)
}

/** The durable writes of a phase can be read, each with the last value it got. */
const meetsWrites = Effect.fnUntraced(function* (expected: V.ExpectedPhases["phases"][number]) {
  const sessions = yield* Session.Session
  const writes = new Map(
    expected["store ops"]?.flatMap((operation) => ("write" in operation ? [[operation.write, operation.value]] : []))
  )
  for (const [key, value] of writes) {
    const found = Option.getOrUndefined(yield* sessions.read(key))
    equal(found?.value, value, `the durable write ${key}`)
  }
})

const meetsPhase = Effect.fnUntraced(function* (
  given: V.Phases,
  options: V.Phase,
  key: string,
  expected: V.ExpectedPhases["phases"][number]
) {
  const trace: Trace = []
  const predicates = { ...given.predicates, ...options.preds }
  const loaded = yield* Effect.result(load({ ...given, fixtures: { ...given.fixtures, ...options.fx }, predicates }, trace))
  if (Result.isFailure(loaded)) {
    const { _tag, message } = loaded.failure
    return equalRuns({ trace, result: { RAISED: _tag, message } }, expected, given.plan)
  }
  const { bound, model } = loaded.success
  const phase = Effect.gen(function* () {
    const sessions = yield* Session.Session
    // A recorded resume begins a run where there is none
    const found = yield* Effect.exit(sessions.state(key))
    const isThere = found._tag === "Failure" || Option.isSome(found.value)
    const running =
      options.resume === true && isThere ? kept.resume(bound, key) : kept.begin(bound, key, inputOf(options.input, "go"))
    equalRuns({ trace, result: yield* kept.seen(bound, key, trace, running) }, expected, given.plan)
    const wanted = recordedCheckpoint(expected)
    if (isObject(wanted) && "status" in wanted) {
      const { completed_steps, kv, next_step, status } = wanted
      equal(yield* kept.checkpointOf(bound, key), { status, next_step, completed_steps, kv }, "checkpoint")
    }
    yield* meetsWrites(expected)
  })
  yield* kept.process(bound, model, phase)
})

/** Each phase in turn on one store. */
const phases = Effect.fnUntraced(
  function* (golden: Case) {
    const given = yield* read(V.Phases)(golden.given)
    const expect = yield* read(V.ExpectedPhases)(golden.expect)
    const key = given.checkpoint_key ?? "ck"
    const foreign = given["pre-existing value at ck"]
    const store = yield* VersionedStore.VersionedStore
    if (foreign !== undefined) yield* store.compareAndSet(`session/head/${key}`, Option.none(), foreign)
    // A plan is read with all its predicates, also where a phase has its own predicates only.
    const predicates = Object.assign({}, given.predicates, ...given.phases.map(({ preds }) => preds ?? {}))
    assert.strictEqual(given.phases.length, expect.phases.length)
    for (const [index, expected] of expect.phases.entries()) {
      yield* meetsPhase({ ...given, predicates }, given.phases[index] ?? {}, key, expected)
    }
  },
  Effect.provide(VersionedStore.layerMemory)
)

/** The check of a case in the vocabulary, by what is given and expected; nothing for a case that is described in prose. */
export const checkOf = ({ expect, given }: Case): ((golden: Case) => Effect.Effect<void, unknown>) | undefined => {
  if ("from_dict then to_dict" in given) return roundtrip
  if ("from_dict" in given) return loading
  if ("steps" in given) return references
  if ("phases" in given) return phases
  if ("run_many" in given) return many
  if (!("plan" in given)) return undefined
  return "trace" in expect ? run : "OK" in expect || "RAISED" in expect ? compile : undefined
}
