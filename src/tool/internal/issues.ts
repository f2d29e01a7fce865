import type * as Schema from "effect/Schema"
import * as SchemaIssue from "effect/SchemaIssue"
import type { ValidationIssue } from "../../payload/ValidationIssue.ts"

type Issue = Pick<ValidationIssue, "path" | "message">

const format = SchemaIssue.makeFormatterStandardSchemaV1()

const segment = (part: PropertyKey | { readonly key: PropertyKey }): PropertyKey =>
  typeof part === "object" ? part.key : part

const render = (path: ReadonlyArray<PropertyKey>): string =>
  path.reduce<string>(
    (text, key) => (typeof key === "number" ? `${text}[${key}]` : text === "" ? String(key) : `${text}.${String(key)}`),
    ""
  )

const lookup = (value: unknown, path: ReadonlyArray<PropertyKey>): boolean => {
  let current = value
  for (const key of path) {
    if (typeof current !== "object" || current === null || !Object.hasOwn(current, key)) return false
    current = Reflect.get(current, key)
  }
  return true
}

const paths = (error: Schema.SchemaError) =>
  format(error.issue).issues.map((issue) => ({ path: (issue.path ?? []).map(segment), message: issue.message }))

/** All problems, each with a readable path such as `items[1].qty`. */
export const all = (error: Schema.SchemaError): ReadonlyArray<ValidationIssue> =>
  paths(error).map(({ message, path }) => ({
    path: render(path),
    pointer: path.map((key) => `/${String(key).replaceAll("~", "~0").replaceAll("/", "~1")}`).join(""),
    keyword: "schema",
    message
  }))

/** Keys that the value lacks apart from everything else that is wrong. */
export const split = (
  error: Schema.SchemaError,
  value: unknown
): { readonly missing: ReadonlyArray<string>; readonly others: ReadonlyArray<Issue> } => {
  const missing: Array<string> = []
  const others: Array<Issue> = []
  for (const { message, path } of paths(error)) {
    if (path.length > 0 && !lookup(value, path)) missing.push(render(path))
    else others.push({ path: render(path), message })
  }
  return { missing, others }
}
