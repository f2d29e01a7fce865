import * as JsonPointer from "effect/JsonPointer"

/** A place in a value, from the inside out; `undefined` is the root. */
export interface Location {
  readonly parent: Location | undefined
  readonly key: string | number
}

export const child = (parent: Location | undefined, key: string | number): Location => ({ parent, key })

const keys = (location: Location | undefined): ReadonlyArray<string | number> => {
  const out: Array<string | number> = []
  for (let at = location; at !== undefined; at = at.parent) out.push(at.key)
  return out.reverse()
}

const plainName = /^[\p{L}_$][\p{L}\p{N}_$-]*$/u

/** The readable form, `items[1].qty`; names with other characters are quoted. */
export const toPath = (location: Location | undefined): string => {
  let path = ""
  for (const key of keys(location)) {
    if (typeof key === "number") path += `[${key}]`
    else if (!plainName.test(key)) path += `[${JSON.stringify(key)}]`
    else path += path === "" ? key : `.${key}`
  }
  return path
}

/** The JSON Pointer, `/items/1/qty`. */
export const toPointer = (location: Location | undefined): string =>
  keys(location)
    .map((key) => `/${JsonPointer.escapeToken(String(key))}`)
    .join("")

/** One step down in a JSON Pointer. */
export const join = (pointer: string, key: string | number): string =>
  `${pointer}/${JsonPointer.escapeToken(String(key))}`
