import * as JsonPointer from "effect/JsonPointer"

/** A JSON Pointer from keys and indices; the empty path is the root. */
export const pointer = (path: ReadonlyArray<PropertyKey>): string =>
  path.map((token) => `/${JsonPointer.escapeToken(String(token))}`).join("")

/** The tokens of a JSON Pointer. */
export const tokens = (path: string): ReadonlyArray<string> =>
  path === "" ? [] : path.slice(1).split("/").map(JsonPointer.unescapeToken)

/** How long the paths of one error may be together before further issues are only counted: keys come from outside. */
export const maxPaths = 64 * 1024
