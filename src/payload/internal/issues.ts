/**
 * Converts the issues of Effect's Schema to and from issues of a payload.
 */

import type * as Schema from "effect/Schema"
import * as SchemaIssue from "effect/SchemaIssue"
import * as PayloadError from "../PayloadError.ts"
import * as paths from "./paths.ts"

/** Under this annotation an embedded codec hands on what it expected and found. */
const issueAnnotation = "~effect-emissary/payload/Issue"

const formatSchemaIssue = SchemaIssue.makeFormatterStandardSchemaV1()

/**
 * Turns a SchemaIssue into the reason Invalid: every place, up to `max`, with
 * the kind of what `input` holds there.
 */
export const reasonFromSchemaIssue = (
  issue: SchemaIssue.Issue,
  input: unknown,
  options: { readonly max: number; readonly path: string }
): PayloadError.Invalid => {
  const issues: Array<PayloadError.Problem> = []
  let omitted = 0
  let size = 0
  for (const leaf of leavesOf(issue, [], undefined)) {
    if (issues.length >= options.max || size > paths.maxPaths) {
      omitted += 1
      continue
    }
    const path = options.path + paths.formatPointer(leaf.path)
    size += path.length
    issues.push({ path, expected: leaf.expected, found: leaf.found ?? paths.kindAt(input, leaf.path) })
  }
  return new PayloadError.Invalid({ issues, omitted })
}

/**
 * Turns issues into a SchemaIssue, so that a codec embedded in a schema reports
 * its places within the whole.
 */
export const toSchemaIssue = (
  issues: ReadonlyArray<PayloadError.Problem>,
  input: unknown,
  wrap: (issues: readonly [SchemaIssue.Issue, ...Array<SchemaIssue.Issue>]) => SchemaIssue.Issue
): SchemaIssue.Issue => {
  const [first, ...rest] = issues.map(
    (issue) =>
      new SchemaIssue.Pointer(
        paths.parsePointer(issue.path),
        new SchemaIssue.InvalidValue(
          { message: `Expected ${issue.expected}, found ${issue.found}`, [issueAnnotation]: issue },
          input,
          {}
        )
      )
  )
  return first === undefined ? new SchemaIssue.InvalidValue({ message: "Invalid" }, input, {}) : wrap([first, ...rest])
}

interface Leaf {
  readonly path: ReadonlyArray<PropertyKey>
  readonly expected: string
  readonly found?: string | undefined
}

function* leavesOf(
  issue: SchemaIssue.Issue,
  path: ReadonlyArray<PropertyKey>,
  message: string | undefined
): Generator<Leaf> {
  switch (issue._tag) {
    case "Filter":
      // The name of a check is known to the check alone, and core's formatter asks it.
      return yield* leavesOf(
        issue.issue,
        path,
        message ?? (issue.issue._tag === "InvalidValue" ? formatIssue(issue) : SchemaIssue.defaultCheckHook(issue))
      )
    case "Encoding":
      return yield* leavesOf(issue.issue, path, message)
    case "Pointer":
      return yield* leavesOf(issue.issue, [...path, ...issue.path], message)
    case "Composite":
      for (const inner of issue.issues) yield* leavesOf(inner, path, message)
      return
    case "AnyOf": {
      if (issue.issues.length === 0) return yield { path, expected: trimExpected(message ?? formatIssue(issue)) }
      const members = issue.issues.map((inner) => [...leavesOf(inner, path, message)])
      // Alternatives that all fail at this very place are one issue, not many.
      const here = members.every((member) => member.length === 1 && member[0]?.path.length === path.length)
      if (here) return yield { path, expected: joinExpected(members.flat()) }
      return yield* members.flat()
    }
    case "MissingKey": {
      const found = message ?? SchemaIssue.defaultLeafHook(issue)
      return yield { path, expected: found === "Missing key" ? "a value" : trimExpected(found), found: "nothing" }
    }
    case "UnexpectedKey":
      return yield { path, expected: "no such key" }
    case "InvalidValue": {
      const given = issue.annotations?.[issueAnnotation]
      if (isIssue(given)) return yield { path, expected: given.expected, found: given.found }
      return yield { path, expected: trimExpected(message ?? SchemaIssue.defaultLeafHook(issue)) }
    }
    default:
      return yield { path, expected: trimExpected(message ?? SchemaIssue.defaultLeafHook(issue)) }
  }
}

const formatIssue = (issue: SchemaIssue.Issue): string => formatSchemaIssue(issue).issues[0]?.message ?? "a valid value"

const joinExpected = (alternatives: ReadonlyArray<Leaf>): string =>
  [...new Set(alternatives.map((leaf) => leaf.expected))].join(" or ")

/** Core's messages begin with "Expected"; ours put the word in front themselves. */
const trimExpected = (message: string): string => paths.truncateText(message.replace(/^Expected /, ""), 300)

const isIssue = (value: unknown): value is PayloadError.Problem =>
  typeof value === "object" && value !== null && "expected" in value && "found" in value && "path" in value

const formatStandard = SchemaIssue.makeFormatterStandardSchemaV1()

/**
 * What a Schema of Effect found, each problem with its place; the keyword is `schema`.
 *
 * **When to use**
 *
 * Use to tell a model or a person what a decode of JSON refused, in the words that
 * `JsonSchema.validate` has for the rest.
 *
 * **Gotchas**
 *
 * Give the decode `{ errors: "all" }`, or there is one issue at most.
 */
export const issuesFromSchemaError = (error: Schema.SchemaError): ReadonlyArray<PayloadError.ValidationIssue> =>
  formatStandard(error.issue).issues.map(({ message, path = [] }) => {
    const location = path
      .map((segment) => (typeof segment === "object" ? segment.key : segment))
      .reduce<paths.Location | undefined>(
        (parent, key) => paths.childLocation(parent, typeof key === "symbol" ? String(key) : key),
        undefined
      )
    return { path: paths.toPath(location), pointer: paths.toPointer(location), keyword: "schema", message }
  })
