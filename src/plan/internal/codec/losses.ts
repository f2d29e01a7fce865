/** What versions 1 and 2 cannot hold. */
import type { JsonObject } from "../../../payload/Json.ts"
import type { Loss } from "../../../payload/LossyEncoding.ts"
import type { SchemaRef } from "../../PlanDefinition.ts"
import type { Reference } from "../../Reference.ts"
import { type Draft, type DraftStep, isDefault } from "./draft.ts"
import { defaultName } from "./limits.ts"
import * as Names from "../../../payload/Names.ts"
import { equals } from "../json.ts"
import { byCodePoint } from "../names/order.ts"
import { isList } from "../references.ts"
import { isRouteCondition } from "./routes.ts"

const reference = (path: string, { _tag }: Reference): ReadonlyArray<Loss> => {
  if (_tag !== "FromMemory" && _tag !== "FromAgent") return []
  const what = _tag === "FromMemory" ? "the memory" : "the last answer"
  return [{ path, what: `a reference to ${what} of an agent (written as null, which is read as the step before)` }]
}

const context = (path: string, value: DraftStep["context"]): ReadonlyArray<Loss> => {
  if (value === undefined) return []
  return isList(value) ? value.flatMap((item, index) => reference(`${path}/${index}`, item)) : reference(path, value)
}

const schema = (path: string, slot: "input" | "output", ref: SchemaRef | undefined, version: 1 | 2) => {
  if (ref === undefined) return []
  if (version === 1) return [{ path, what: `the ${slot} schema` }]
  if (ref.name === undefined) return [{ path, what: `an ${slot} schema without a name` }]
  if (isDefault(slot, ref)) return [{ path, what: `an ${slot} schema named ${ref.name}, which stands for none` }]
  return []
}

/** Two schemas of one name: only the name is written, and whoever reads it has one schema for it. */
const homonyms = (steps: ReadonlyArray<DraftStep>): ReadonlyArray<Loss> => {
  const first = new Map<string, { readonly path: string; readonly json: JsonObject }>()
  return steps.flatMap((step, index) =>
    (["input", "output"] as const).flatMap((slot): ReadonlyArray<Loss> => {
      const { json, name } = step[slot] ?? {}
      if (name === undefined || json === undefined || isDefault(slot, { name })) return []
      const path = `/steps/${index}/${slot}`
      const before = first.get(name)
      if (before === undefined) {
        first.set(name, { path, json })
        return []
      }
      if (equals(before.json, json)) return []
      const what = `an ${slot} schema named ${name}, which is another one at ${before.path} (written as the name, which is read as one schema)`
      return [{ path, what }]
    })
  )
}

/** Routes are written sorted, and each target once. */
const routes = (path: string, { name, routes = [] }: DraftStep): ReadonlyArray<Loss> => {
  const targets = routes.map(({ to }) => to)
  const sorted = targets.toSorted(byCodePoint)
  const order = targets.every((to, index) => to === sorted[index])
    ? []
    : [{ path, what: `the order of the routes of ${Names.quote(name)} (written sorted by name)` }]
  const conditions = routes.flatMap(({ to, when }, index) =>
    targets.indexOf(to) < index
      ? [{ path: `${path}/${index}`, what: `a second route to ${Names.quote(to)}` }]
      : isRouteCondition(when, name, to)
        ? []
        : [{ path: `${path}/${index}/when`, what: `the condition of the route to ${Names.quote(to)}` }]
  )
  return [...order, ...conditions]
}

const step = (step: DraftStep, index: number, version: 1 | 2): ReadonlyArray<Loss> => {
  const path = `/steps/${index}`
  return [
    ...reference(`${path}/task`, step.task),
    ...context(`${path}/context`, step.context),
    ...schema(`${path}/input`, "input", step.input, version),
    ...schema(`${path}/output`, "output", step.output, version),
    ...routes(`${path}/routes`, step),
    ...(step.timeoutMillis === undefined ? [] : [{ path: `${path}/timeout`, what: "the timeout of a step" }]),
    ...(step.retry === undefined ? [] : [{ path: `${path}/retry`, what: "how a step is retried" }])
  ]
}

/** The paths are those of version 3. */
export const lossesOf = ({ description, name, output, steps }: Draft, version: 1 | 2): ReadonlyArray<Loss> => [
  ...(name === defaultName ? [] : [{ path: "/name", what: "the name of the plan" }]),
  ...(description === undefined ? [] : [{ path: "/description", what: "the description of the plan" }]),
  ...(output === undefined ? [] : [{ path: "/output", what: "the output schema of the plan" }]),
  ...steps.flatMap((one, index) => step(one, index, version)),
  ...(version === 1 ? [] : homonyms(steps))
]
