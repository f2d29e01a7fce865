/**
 * Values that grow part by part. A change is a line of JSON: `[path, value]` sets a value, `[path, text, 1]` adds to a text, and `[[]]` removes
 * the whole.
 */

import type * as Schema from "effect/Schema"
import type { Path } from "./partialJson.ts"
import { isArray, isObject, own } from "./values.ts"

/** The value with a change at a place. Only the objects and arrays around the place are copied. */
const changeAt = (root: unknown, [key, ...rest]: Path, change: (before: unknown) => unknown): unknown => {
  if (key === undefined) return change(root)
  if (typeof key === "string") {
    const members = isObject(root) ? root : {}
    return { ...members, [key]: changeAt(own(members, key), rest, change) }
  }
  const items = isArray(root) ? root : []
  const item = changeAt(items[key], rest, change)
  return key < items.length ? items.map((other, index) => (index === key ? item : other)) : [...items, item]
}

export const setAt = (root: unknown, path: Path, value: unknown): unknown => changeAt(root, path, () => value)

export const growAt = (root: unknown, path: Path, text: string): unknown =>
  changeAt(root, path, (before) => (typeof before === "string" ? before + text : text))

export const lineOf = (...change: readonly [path: Path, value?: Schema.Json, grows?: 1]): string =>
  `${JSON.stringify(change)}\n`

/** The value after lines of changes. */
export const applyLines = (root: Schema.Json | undefined, lines: string): Schema.Json | undefined => {
  let value: unknown = root
  for (const line of lines.split("\n")) {
    if (line === "") continue
    // Sound: `lineOf` has made the line
    const [path, part, grows] = JSON.parse(line) as Parameters<typeof lineOf>
    value = grows === 1 && typeof part === "string" ? growAt(value, path, part) : setAt(value, path, part)
  }
  // Sound: parts of JSON in objects and arrays
  return value as Schema.Json | undefined
}
