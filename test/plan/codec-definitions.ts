import { Schema } from "effect"
import type { PlanDefinition, Reference, When } from "effect-emissary/plan"

const upTo = (maximum: number) => Schema.Int.check(Schema.isBetween({ minimum: 0, maximum }))
const some = <S extends Schema.Constraint>(schema: S) => Schema.Union([schema, Schema.Undefined])
const text = Schema.String.check(Schema.isMaxLength(12))

const ReferenceSeed = Schema.Struct({ kind: upTo(7), name: upTo(9), text })
const Leaf = Schema.Struct({
  kind: upTo(8),
  path: Schema.Array(Schema.Union([text, upTo(3)])).check(Schema.isMaxLength(3)),
  value: Schema.Json,
  text,
  number: Schema.Finite
})
const ConditionSeed = Schema.Struct({ join: upTo(3), leaves: Schema.Array(Leaf).check(Schema.isMaxLength(3)) })
const SchemaSeed = Schema.Struct({ named: Schema.Boolean, json: upTo(3) })

const StepSeed = Schema.Struct({
  target: upTo(2),
  targetName: upTo(9),
  task: ReferenceSeed,
  context: some(Schema.Union([ReferenceSeed, Schema.Array(ReferenceSeed).check(Schema.isMaxLength(3))])),
  writes: some(text),
  parallel: Schema.Boolean,
  routes: some(Schema.Array(Schema.Struct({ to: upTo(9), when: ConditionSeed })).check(Schema.isMaxLength(4))),
  routesBy: some(text),
  afterBranches: some(upTo(9)),
  input: some(SchemaSeed),
  output: some(SchemaSeed),
  timeout: some(upTo(100_000)),
  retry: some(
    Schema.Struct({ times: upTo(9), delay: some(upTo(1000)), factor: some(upTo(4)), maxDelay: some(upTo(1000)) })
  )
})

/** The parts of a definition. Every value makes a definition that any codec has to hold. */
export const Seed = Schema.Struct({
  name: some(text),
  description: some(text),
  maxIterations: upTo(1_000_000),
  output: some(SchemaSeed),
  steps: Schema.Array(StepSeed).check(Schema.isMaxLength(5))
})
export type Seed = typeof Seed.Type

/** Names that step names, references and routes are drawn from; in the order of code points they are sorted otherwise than by UTF-16. */
export const names = ["a", "B", "10", "9", "a-x", "a_x", "é", "\u{20000}", "\uFF21", "long_name-1"] as const

export const schemas: { readonly [name: string]: PlanDefinition.SchemaRef } = {
  Hits: {
    name: "Hits",
    json: {
      type: "object",
      properties: { items: { type: "array", items: { type: "string" } }, password: { type: "string" } },
      required: ["items"],
      additionalProperties: false
    }
  },
  Score: { name: "Score", json: { type: "integer", minimum: 0 } },
  Word: { name: "Word", json: { type: "string", pattern: "^[a-z]+$" } },
  Any: { name: "Anything", json: {} }
}

const schemaList = Object.values(schemas)

const nameAt = (index: number): string => names[index] ?? "a"

const reference = ({ kind, name, text }: typeof ReferenceSeed.Type): Reference.Reference => {
  const step = nameAt(name)
  switch (kind) {
    case 1:
      return { _tag: "FromStart" }
    case 2:
      return { _tag: "FromStep", step }
    case 3:
      return { _tag: "FromParallel", step }
    case 4:
      return { _tag: "FromParallelAll", step }
    case 5:
      return { _tag: "FromMemory", agent: text }
    case 6:
      return { _tag: "FromAgent", agent: text }
    case 7:
      return { _tag: "Literal", value: text }
    default:
      return { _tag: "FromPrev" }
  }
}

const leaf = ({ kind, number, path, text, value }: typeof Leaf.Type): When.When => {
  switch (kind) {
    case 0:
      return { _tag: "Equals", path, value: lawful(value) }
    case 1:
      return { _tag: "Empty", path }
    case 2:
      return { _tag: "In", path, values: [lawful(value), text] }
    case 3:
      return { _tag: "GreaterThan", path, value: number }
    case 4:
      return { _tag: "LessThan", path, value: text }
    case 5:
      return { _tag: "Matches", path, pattern: "^[a-z]+$" }
    case 6:
      return { _tag: "Text", value: text }
    default:
      return { _tag: "Custom", name: text === "" ? "p" : `p ${text}` }
  }
}

/** Without the keys that no payload may have (L2). */
const lawful = (value: Schema.Json): Schema.Json =>
  JSON.parse(JSON.stringify(value, (key, member) => (forbidden.has(key) ? undefined : member)))

const forbidden = new Set(["__proto__", "constructor"])

const condition = ({ join, leaves }: typeof ConditionSeed.Type): When.When => {
  const all = leaves.map(leaf)
  const [first] = all
  if (join === 0) return { _tag: "And", all }
  if (join === 1) return { _tag: "Or", any: all }
  const only = first ?? { _tag: "And", all: [] }
  return join === 2 ? { _tag: "Not", when: only } : only
}

const schema = ({ json, named }: typeof SchemaSeed.Type): PlanDefinition.SchemaRef => {
  const ref = schemaList[json] ?? {}
  const { name, json: document } = ref
  return { ...(named && name !== undefined ? { name } : {}), ...(document === undefined ? {} : { json: document }) }
}

const given = <K extends string, A, B>(key: K, value: A | undefined, f: (value: A) => B): { readonly [P in K]?: B } =>
  // a computed key of a generic name has an index signature otherwise
  (value === undefined ? {} : { [key]: f(value) }) as { readonly [P in K]?: B }

const retry = ({
  delay,
  factor,
  maxDelay,
  times
}: {
  readonly times: number
  readonly delay: number | undefined
  readonly factor: number | undefined
  readonly maxDelay: number | undefined
}): PlanDefinition.RetryPolicy => ({
  times,
  ...(delay === undefined ? {} : { delayMillis: delay }),
  ...(factor === undefined ? {} : { factor: 1 + factor }),
  ...(maxDelay === undefined ? {} : { maxDelayMillis: maxDelay })
})

const isList = <A>(value: A | ReadonlyArray<A>): value is ReadonlyArray<A> => Array.isArray(value)

const step = (seed: typeof StepSeed.Type, index: number): PlanDefinition.StepDefinition => ({
  name: nameAt(index),
  target: { kind: (["tool", "agent", "function"] as const)[seed.target] ?? "tool", name: nameAt(seed.targetName) },
  task: reference(seed.task),
  ...given("context", seed.context, (context) => (isList(context) ? context.map(reference) : reference(context))),
  ...given("writes", seed.writes === "" ? undefined : seed.writes, (writes) => writes),
  parallel: seed.parallel,
  ...given("routes", seed.routes, (routes) =>
    routes.map(({ to, when }) => ({ to: nameAt(to), when: condition(when) }))
  ),
  ...given("routesBy", seed.routesBy, (routesBy) => routesBy),
  ...given("afterBranches", seed.afterBranches, nameAt),
  ...given("input", seed.input, schema),
  ...given("output", seed.output, schema),
  ...given("timeoutMillis", seed.timeout, (timeout) => timeout),
  ...given("retry", seed.retry, retry)
})

export const definition = (seed: Seed): PlanDefinition.PlanDefinition => ({
  name: seed.name ?? "plan",
  ...given("description", seed.description, (description) => description),
  maxIterations: seed.maxIterations,
  ...given("output", seed.output, schema),
  steps: seed.steps.map(step)
})
