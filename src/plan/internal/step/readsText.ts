/** Whether a step wants what it reads as text. */
import type { StepDefinition } from "../../PlanDefinition.ts"
import * as Json from "../check/jsonSchema.ts"

/** Its input is text and nothing else: a band, which is text and an object, is the text then. */
export const readsText = ({ input }: StepDefinition): boolean => {
  if (input?.json === undefined) return false
  const root = Json.located(input.json)
  const types = Json.types(Json.resolve(root) ?? root)
  return types !== undefined && types.every((type) => type === "string")
}
