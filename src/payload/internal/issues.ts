/**
 * Converts the issues of Effect's Schema to and from issues of a payload.
 */

import * as Schema from "effect/Schema"
import type * as SchemaAST from "effect/SchemaAST"
import * as SchemaIssue from "effect/SchemaIssue"
import * as PayloadError from "../PayloadError.ts"
import * as base from "./base.ts"

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
): PayloadError.Reason => {
  const issues: Array<PayloadError.Problem> = []
  let omitted = 0
  let size = 0
  for (const leaf of leavesOf(issue, [], undefined)) {
    if (issues.length >= options.max || size > base.maxPaths) {
      omitted += 1
      continue
    }
    const path = options.path + base.formatPointer(leaf.path)
    size += path.length
    const found = leaf.found ?? base.kindAt(input, leaf.path)
    issues.push({ path, expected: leaf.expected, found, ...base.defined({ fix: leaf.fix }) })
  }
  return PayloadError.invalid(issues, omitted)
}

/**
 * Turns problems into a SchemaIssue, so that a codec embedded in a schema reports
 * its places within the whole.
 */
export const toSchemaIssue = (
  problems: ReadonlyArray<PayloadError.Problem>,
  input: unknown,
  options: SchemaAST.ParseOptions = {}
): SchemaIssue.Issue => {
  const [first, ...rest] = problems.map((problem) => {
    const message = `Expected ${problem.expected}, got ${problem.found}`
    const value = new SchemaIssue.InvalidValue({ message, [issueAnnotation]: problem }, input, options)
    return problem.path === "" ? value : new SchemaIssue.Pointer(base.parsePointer(problem.path), value)
  })
  return first === undefined
    ? new SchemaIssue.InvalidValue({ message: "Invalid" }, input, options)
    : new SchemaIssue.Composite(Schema.Json.ast, [first, ...rest], input, options)
}

interface Leaf {
  readonly path: ReadonlyArray<PropertyKey>
  readonly expected: string
  readonly found?: string | undefined
  readonly fix?: string | undefined
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
      if (isProblem(given)) return yield { path, expected: given.expected, found: given.found, fix: given.fix }
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
const trimExpected = (message: string): string => base.truncateText(message.replace(/^Expected /, ""), 300)

const isProblem = (value: unknown): value is PayloadError.Problem =>
  typeof value === "object" && value !== null && "expected" in value && "found" in value && "path" in value

/** The problems that a Schema of Effect found in JSON. Decode with `{ errors: "all" }`, or there is one at most. */
export const problemsFromSchemaError = (
  error: Schema.SchemaError,
  input: unknown
): ReadonlyArray<PayloadError.Problem> =>
  PayloadError.problemsOf(reasonFromSchemaIssue(error.issue, input, { max: Number.POSITIVE_INFINITY, path: "" }))
