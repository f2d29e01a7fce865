/** The kind of a value in words of JSON, for errors. */
export const kindOf = (value: unknown): string => {
  if (value === null) return "null"
  if (value === undefined) return "nothing"
  if (typeof value === "number") return Number.isFinite(value) ? "number" : "a number that is not finite"
  if (typeof value === "object") return Array.isArray(value) ? "array" : "object"
  return typeof value
}

/** The kind of what stands at a path, read without inherited members. */
export const kindAt = (root: unknown, path: ReadonlyArray<PropertyKey>): string => {
  let value = root
  for (const token of path) {
    // A path may go on inside of a transformed scalar: its kind is all that is known.
    if (typeof value !== "object" || value === null) return kindOf(value)
    value = Object.getOwnPropertyDescriptor(value, token)?.value
  }
  return kindOf(value)
}
