import type * as Schema from "effect/Schema"
import type { Reason } from "../../JsonSchemaError.ts"
import type { JsonObject } from "../../Json.ts"
import type { Assertion, Node } from "./model.ts"
import type { LinearPattern } from "./patterns.ts"
import { describe, isArray, isObject } from "./values.ts"

/** What the compiler of a keyword sees. */
export interface Context {
  readonly dialect: "2020-12" | "draft-07"
  /** The schema the keyword stands in. */
  readonly schema: JsonObject
  readonly keyword: string
  /** Compiles a subschema at keys below this schema; the same keys give the same node. */
  readonly sub: (json: Schema.Json, ...keys: ReadonlyArray<string | number>) => Node
  /** Compiles a regular expression once per document; refuses it at keys below this schema. */
  readonly pattern: (source: string, ...keys: ReadonlyArray<string | number>) => LinearPattern | undefined
  /** Refuses the document, at keys below this schema. */
  readonly refuse: (reason: Reason, ...keys: ReadonlyArray<string | number>) => undefined
}

/** Turns the value of a keyword into an assertion; `undefined` when there is nothing to assert. */
export type Keyword = (value: Schema.Json, context: Context) => Assertion | undefined

export type Keywords = ReadonlyArray<readonly [name: string, compile: Keyword]>

const invalid = (context: Context, expected: string, found: Schema.Json, ...keys: ReadonlyArray<string | number>) =>
  context.refuse(
    { _tag: "InvalidKeyword", keyword: context.keyword, expected, found: describe(found) },
    context.keyword,
    ...keys
  )

/** A keyword that holds a finite number. */
export const number =
  (compile: (limit: number, context: Context) => Assertion | undefined): Keyword =>
  (value, context) =>
    typeof value === "number" ? compile(value, context) : invalid(context, "a number", value)

/** A keyword that holds a count. */
export const count =
  (compile: (limit: number, context: Context) => Assertion | undefined): Keyword =>
  (value, context) =>
    typeof value === "number" && Number.isInteger(value) && value >= 0
      ? compile(value, context)
      : invalid(context, "a whole number of at least 0", value)

export const string =
  (compile: (text: string, context: Context) => Assertion | undefined): Keyword =>
  (value, context) =>
    typeof value === "string" ? compile(value, context) : invalid(context, "a string", value)

/** A keyword that holds one subschema. */
export const schema =
  (compile: (node: Node, context: Context) => Assertion | undefined): Keyword =>
  (value, context) =>
    isObject(value) || typeof value === "boolean"
      ? compile(context.sub(value, context.keyword), context)
      : invalid(context, "a schema", value)

/** A keyword that holds a non-empty list of subschemas. */
export const schemas =
  (compile: (nodes: ReadonlyArray<Node>, context: Context) => Assertion | undefined): Keyword =>
  (value, context) =>
    isArray(value) && value.length > 0
      ? compile(
          value.map((item, index) => context.sub(item, context.keyword, index)),
          context
        )
      : invalid(context, "a non-empty array of schemas", value)

/** A keyword that holds subschemas by name. */
export const named =
  (compile: (nodes: ReadonlyArray<readonly [string, Node]>, context: Context) => Assertion | undefined): Keyword =>
  (value, context) =>
    isObject(value)
      ? compile(
          Object.keys(value).map((key) => [key, context.sub(value[key] ?? null, context.keyword, key)] as const),
          context
        )
      : invalid(context, "an object of schemas", value)

/** A keyword that holds a list of names. */
export const names =
  (compile: (list: ReadonlyArray<string>, context: Context) => Assertion | undefined): Keyword =>
  (value, context) => {
    const list = stringList(value)
    return list === undefined ? invalid(context, "an array of strings", value) : compile(list, context)
  }

export const stringList = (value: Schema.Json): ReadonlyArray<string> | undefined => {
  if (!isArray(value)) return undefined
  const list = value.filter((item) => typeof item === "string")
  return list.length === value.length ? list : undefined
}

export const invalidKeyword = invalid
