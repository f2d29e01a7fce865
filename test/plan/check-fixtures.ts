/** Plans as plain data, for tests of the rules about them. */
import * as planCheck from "#src/plan/internal/planCheck.ts"
import type { Json } from "effect-emissary/payload"
import type { PlanDefinition, PlanInvalid, When } from "effect-emissary/plan"
import { plan } from "./definitions.ts"

export const some = (name: string): When.When => ({ _tag: "Custom", name })

/** Routes that may all be refused. */
export const to = (...names: ReadonlyArray<string>) => ({ routes: names.map((to) => ({ to, when: some(to) })) })

/** Routes of which one is always taken. */
export const either = (yes: string, no: string) => ({
  routes: [
    { to: yes, when: some("yes") },
    { to: no, when: { _tag: "Not", when: some("yes") } as const }
  ]
})

export const object = (properties: Json.JsonObject, required = Object.keys(properties)): Json.JsonObject => ({
  type: "object",
  properties,
  required,
  additionalProperties: false
})

/** The schemas of the recordings. */
export const schemas = {
  Hits: { name: "Hits", json: object({ items: { type: "array", items: { type: "string" } } }) },
  Other: { name: "Other", json: object({ y: { type: "integer" } }) },
  Tri: {
    name: "Tri",
    json: object({ severity: { type: ["string", "null"], enum: ["urgent", "normal", "spam", null] } })
  },
  Kb: { name: "Kb", json: object({ kind: { type: "string", enum: ["b"] } }) },
  KbOpt: { name: "KbOpt", json: object({ kind: { type: ["string", "null"], enum: ["b", null] } }) },
  KbGhost: { name: "KbGhost", json: object({ kind: { type: "string", enum: ["b", "ghost"] } }) },
  Kstr: { name: "Kstr", json: object({ kind: { type: "string" } }) },
  Kint: { name: "Kint", json: object({ kind: { type: "integer", enum: [1, 2] } }) },
  Kp1: { name: "Kp1", json: object({ kind: { type: "string", const: "p1" } }) }
} satisfies { readonly [name: string]: PlanDefinition.SchemaRef }

/** The fields of problems that most tests compare. */
export const brief = ({ code, slot, step }: PlanInvalid.Problem) =>
  step === undefined ? `${code} ${slot}` : `${code} ${step} ${slot}`

export const problems = (...steps: ReadonlyArray<PlanDefinition.StepDefinition>) =>
  planCheck.checkStructure(plan(...steps)).map(brief)

export const reasons = (...steps: ReadonlyArray<PlanDefinition.StepDefinition>) =>
  planCheck.checkStructure(plan(...steps)).map(({ reason }) => reason)
