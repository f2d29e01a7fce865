/**
 * A definition as its JSON has it, before a registry resolves its names: the checks of every version, and version 3.
 */

import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as JsonSchema from "../../payload/JsonSchema.ts"
import * as Limits from "../../payload/Limits.ts"
import * as PayloadError from "../../payload/PayloadError.ts"
import * as VersionedCodec from "../../payload/VersionedCodec.ts"
import * as base from "../../payload/internal/base.ts"
import * as interpret from "../../payload/internal/interpret.ts"
import * as untrusted from "../../payload/internal/untrusted.ts"
import * as PlanDefinition from "../PlanDefinition.ts"
import type { Reference } from "../Reference.ts"
import * as condition from "./condition.ts"
import * as planFlow from "./planFlow.ts"
import * as planNames from "./planNames.ts"

/** A target of version 1 or 2 with an unknown kind: the entry of the registry decides. `wire` is that kind, for messages. */
export interface OpenTarget {
  readonly kind: "any"
  readonly name: string
  readonly wire: string
}

export interface DraftStep extends Omit<PlanDefinition.StepDefinition, "target"> {
  readonly target: PlanDefinition.StepDefinition["target"] | OpenTarget
}

export interface Draft extends Omit<PlanDefinition.PlanDefinition, "steps"> {
  /** In LazyBridge's dialect, versions 1 and 2, the schema names `str` and `Any` mean that there is no schema. */
  readonly dialect?: "lazybridge"
  readonly steps: ReadonlyArray<DraftStep>
}

export type SchemaSlot = "input" | "output"

/** True for the schema names that mean no schema in LazyBridge's dialect. */
export const isNoSchema = (slot: SchemaSlot, ref: PlanDefinition.SchemaRef | undefined): boolean =>
  ref?.name === (slot === "output" ? "str" : "Any")

/** The definition of a draft without a registry: a target of an unknown kind becomes a function. */
export const settleDraft = ({ dialect, ...draft }: Draft): PlanDefinition.PlanDefinition => {
  const schemaOf = (slot: SchemaSlot, ref: PlanDefinition.SchemaRef | undefined) =>
    dialect === "lazybridge" && isNoSchema(slot, ref) ? undefined : ref
  const settleStep = ({ input, output, target, ...rest }: DraftStep): PlanDefinition.StepDefinition => ({
    ...rest,
    target: target.kind === "any" ? { kind: "function", name: target.name } : target,
    ...base.defined({ input: schemaOf("input", input), output: schemaOf("output", output) })
  })
  return { ...draft, steps: draft.steps.map(settleStep) }
}

export const documentName = "Plan"

/** The rule of step names: identifiers in version 3, any text in versions 1 and 2. */
type NameRule = "identifier" | "text"

type Problems = ReadonlyArray<PayloadError.Problem>

const schemaProblems = (path: string, ref: PlanDefinition.SchemaRef | undefined): Effect.Effect<Problems> => {
  if (ref === undefined || (ref.json === undefined && ref.name !== undefined)) return Effect.succeed([])
  if (ref.json === undefined) {
    return Effect.succeed([{ path, expected: "a schema with a name, a JSON Schema, or both", found: "neither" }])
  }
  return Effect.match(JsonSchema.make(ref.json), {
    onFailure: (error) => [
      {
        path: `${path}/schema${error.path}`,
        expected: "a JSON Schema that can be enforced",
        found: `one that cannot: ${error.message}`
      }
    ],
    onSuccess: () => []
  })
}

/** The references of a step, each with its place. */
export const referencesOf = ({ context, task }: DraftStep): ReadonlyArray<readonly [path: string, Reference]> => [
  ["/task", task],
  ...planFlow
    .contextReferences(context)
    .map(
      (reference, index) =>
        [
          context !== undefined && planFlow.isReferenceList(context) ? `/context/${index}` : "/context",
          reference
        ] as const
    )
]

const nameProblems = (path: string, step: DraftStep, rule: NameRule): Problems => {
  const isIdentifier = rule === "identifier"
  const isGood = isIdentifier ? planNames.isIdentifier(step.name) : planNames.isPlainText(step.name)
  const expected = `the name of the step: ${isIdentifier ? planNames.identifierRule : planNames.plainTextRule}`
  const own = isGood ? [] : [{ path: `${path}/name`, expected, found: base.quote(step.name) }]
  const inReferences = referencesOf(step).flatMap(([slot, reference]) => {
    if (!("step" in reference) || planNames.isIdentifier(reference.step)) return []
    const kind = reference._tag.replaceAll(/(?!^)[A-Z]/gu, "_$&").toLowerCase()
    const expected = `the name of a step in ${kind}: ${planNames.identifierRule}`
    return [{ path: `${path}${slot}/name`, expected, found: base.quote(reference.step) }]
  })
  return [...own, ...inReferences]
}

const countProblems = (path: string, what: string, limit: number, found: number): Problems =>
  found <= limit ? [] : [{ path, expected: `at most ${limit} ${what}`, found: `${found}` }]

const conditionProblems = (path: string, { routes = [] }: DraftStep): Problems =>
  routes.flatMap(({ when }, index) =>
    condition.analyze(when).problems.map((problem) => ({
      path: `${path}/routes/${index}/when${base.formatPointer(problem.path)}`,
      expected: "a condition that can be used",
      found: `one that cannot: ${problem.reason}`
    }))
  )

const stepProblems = Effect.fnUntraced(function* (step: DraftStep, index: number, rule: NameRule) {
  const path = `/steps/${index}`
  const contexts = planFlow.contextReferences(step.context).length
  return [
    ...nameProblems(path, step, rule),
    ...countProblems(`${path}/context`, "contexts of one step", planNames.maxContext, contexts),
    ...countProblems(`${path}/routes`, "routes of one step", planNames.maxRoutes, step.routes?.length ?? 0),
    ...conditionProblems(path, step),
    ...(yield* schemaProblems(`${path}/input`, step.input)),
    ...(yield* schemaProblems(`${path}/output`, step.output))
  ]
})

/** Every name in a plan that selects something, with its place. */
const selectingNames = ({ output, steps }: Draft): ReadonlyArray<readonly [path: string, name: string | undefined]> => [
  ["/output/name", output?.name],
  ...steps.flatMap(({ input, name, output, routes = [], target }, index) => {
    const path = `/steps/${index}`
    return [
      [`${path}/name`, name],
      [`${path}/target/name`, target.name],
      [`${path}/input/name`, input?.name],
      [`${path}/output/name`, output?.name],
      ...routes.flatMap(({ when }, at) =>
        condition.analyze(when).customs.map((name) => [`${path}/routes/${at}/when`, name] as const)
      )
    ] as const
  })
]

const iterationProblems = ({ maxIterations }: Draft): Problems =>
  Number.isSafeInteger(maxIterations) && maxIterations >= 0 && maxIterations <= planNames.maxIterations
    ? []
    : [
        {
          path: "/max_iterations",
          expected: `a whole number from 0 to ${planNames.maxIterations}`,
          found: `${maxIterations}`
        }
      ]

/** Counts come first: no pattern of a plan that has too many is compiled. */
const sizeProblems = ({ steps }: Draft): Problems => {
  const conditions = steps.flatMap(({ routes = [] }) => routes.map(({ when }) => when))
  const patterns = conditions.reduce((sum, when) => sum + condition.countPatterns(when), 0)
  return [
    ...countProblems("/steps", "steps", planNames.maxSteps, steps.length),
    ...countProblems("/steps", "regular expressions in all conditions together", planNames.maxPatterns, patterns)
  ]
}

const allProblems = Effect.fnUntraced(function* (draft: Draft, rule: NameRule) {
  const problems = [...iterationProblems(draft), ...(yield* schemaProblems("/output", draft.output))]
  const sizes = sizeProblems(draft)
  if (sizes.length > 0) return [...problems, ...sizes]
  for (const [path, key] of selectingNames(draft)) {
    if (key === undefined || !untrusted.inheritedNames.has(key)) continue
    const reason = PayloadError.Reason.cases.ForbiddenKey.make({ path, key })
    return yield* new PayloadError.PayloadError({ what: documentName, reason })
  }
  for (const [index, step] of draft.steps.entries()) problems.push(...(yield* stepProblems(step, index, rule)))
  return problems
})

/** Checks everything that can be checked in a plan by itself. It reports every problem at once, after the `found` ones. */
export const checkDraft = Effect.fnUntraced(function* <D extends Draft>(
  draft: D,
  rule: NameRule,
  found: Problems = []
): Effect.fn.Return<D, PayloadError.PayloadError> {
  const { maxIssues } = yield* Limits.Limits
  const problems = [...found, ...(yield* allProblems(draft, rule))]
  if (problems.length === 0) return draft
  const reason = PayloadError.invalid(problems.slice(0, maxIssues), Math.max(0, problems.length - maxIssues))
  return yield* new PayloadError.PayloadError({ what: documentName, reason })
}, interpret.sharePatternFuel)

const { description, maxIterations, name, output, steps } = PlanDefinition.PlanDefinition.to.fields

/** Version 3: the definition itself, tagged. Its keys are written out, so that the steps are validated once less. */
const WirePlan = Schema.Struct({
  version: Schema.Literal(3),
  name,
  description,
  max_iterations: maxIterations,
  output,
  steps
})

export const armV3 = VersionedCodec.arm({
  version: 3,
  wire: WirePlan,
  toCurrent: ({ max_iterations: maxIterations, version: _, ...rest }) =>
    checkDraft<Draft>({ ...rest, maxIterations }, "identifier"),
  fromCurrent: (draft: Draft) =>
    Effect.flatMap(checkDraft(settleDraft(draft), "identifier"), ({ maxIterations, ...rest }) =>
      VersionedCodec.lossless({ version: 3 as const, max_iterations: maxIterations, ...rest })
    )
})
