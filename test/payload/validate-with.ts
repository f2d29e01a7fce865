import type * as fuel from "#src/payload/internal/fuel.ts"
import * as interpret from "#src/payload/internal/interpret.ts"

/** `JsonSchema.validate` with a counter of fuel, as the validations of a door share one. */
export const validateWith = (
  tank: fuel.Fuel,
  self: interpret.JsonSchema,
  value: unknown,
  options: interpret.ValidateOptions = {}
) => interpret.checkValue(interpret.rootOf(self), value, true, options, tank)
