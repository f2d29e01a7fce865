import * as SchemaIssue from "effect/SchemaIssue"
import { Invalid, type Issue } from "../PayloadError.ts"
import { kindAt } from "./kind.ts"
import { short } from "./messages.ts"
import { maxPaths, pointer, tokens } from "./pointer.ts"

/** Under this annotation an embedded codec hands on what it expected and found. */
const ANNOTATION = "~effect-emissary/payload/Issue"

const formatter = SchemaIssue.makeFormatterStandardSchemaV1()

/**
 * Turns a SchemaIssue into the reason Invalid: every place, up to `max`, with
 * the kind of what `input` holds there.
 */
export const fromSchemaIssue = (
  issue: SchemaIssue.Issue,
  input: unknown,
  options: { readonly max: number; readonly path: string }
): Invalid => {
  const issues: Array<Issue> = []
  let omitted = 0
  let size = 0
  for (const leaf of leaves(issue, [], undefined)) {
    if (issues.length >= options.max || size > maxPaths) {
      omitted += 1
      continue
    }
    const path = options.path + pointer(leaf.path)
    size += path.length
    issues.push({ path, expected: leaf.expected, found: leaf.found ?? kindAt(input, leaf.path) })
  }
  return new Invalid({ issues, omitted })
}

/**
 * Turns issues into a SchemaIssue, so that a codec embedded in a schema reports
 * its places within the whole.
 */
export const toSchemaIssue = (
  issues: ReadonlyArray<Issue>,
  input: unknown,
  wrap: (issues: readonly [SchemaIssue.Issue, ...Array<SchemaIssue.Issue>]) => SchemaIssue.Issue
): SchemaIssue.Issue => {
  const [first, ...rest] = issues.map(
    (issue) =>
      new SchemaIssue.Pointer(
        tokens(issue.path),
        new SchemaIssue.InvalidValue(
          { message: `Expected ${issue.expected}, found ${issue.found}`, [ANNOTATION]: issue },
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

function* leaves(
  issue: SchemaIssue.Issue,
  path: ReadonlyArray<PropertyKey>,
  message: string | undefined
): Generator<Leaf> {
  switch (issue._tag) {
    case "Filter":
      // The name of a check is known to the check alone, and core's formatter asks it.
      return yield* leaves(
        issue.issue,
        path,
        message ?? (issue.issue._tag === "InvalidValue" ? text(issue) : SchemaIssue.defaultCheckHook(issue))
      )
    case "Encoding":
      return yield* leaves(issue.issue, path, message)
    case "Pointer":
      return yield* leaves(issue.issue, [...path, ...issue.path], message)
    case "Composite":
      for (const inner of issue.issues) yield* leaves(inner, path, message)
      return
    case "AnyOf": {
      if (issue.issues.length === 0) return yield { path, expected: words(message ?? text(issue)) }
      const members = issue.issues.map((inner) => [...leaves(inner, path, message)])
      // Alternatives that all fail at this very place are one issue, not many.
      const here = members.every((member) => member.length === 1 && member[0]?.path.length === path.length)
      if (here) return yield { path, expected: either(members.flat()) }
      return yield* members.flat()
    }
    case "MissingKey": {
      const found = message ?? SchemaIssue.defaultLeafHook(issue)
      return yield { path, expected: found === "Missing key" ? "a value" : words(found), found: "nothing" }
    }
    case "UnexpectedKey":
      return yield { path, expected: "no such key" }
    case "InvalidValue": {
      const given = issue.annotations?.[ANNOTATION]
      if (isIssue(given)) return yield { path, expected: given.expected, found: given.found }
      return yield { path, expected: words(message ?? SchemaIssue.defaultLeafHook(issue)) }
    }
    default:
      return yield { path, expected: words(message ?? SchemaIssue.defaultLeafHook(issue)) }
  }
}

const text = (issue: SchemaIssue.Issue): string => formatter(issue).issues[0]?.message ?? "a valid value"

const either = (alternatives: ReadonlyArray<Leaf>): string =>
  [...new Set(alternatives.map((leaf) => leaf.expected))].join(" or ")

/** Core's messages begin with "Expected"; ours put the word in front themselves. */
const words = (message: string): string => short(message.replace(/^Expected /, ""), 300)

const isIssue = (value: unknown): value is Issue =>
  typeof value === "object" && value !== null && "expected" in value && "found" in value && "path" in value
