/** Issues of a Schema as problems with their places, the codecs that report them, and the marks of errors of models. */

import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type * as SchemaAST from "effect/SchemaAST"
import * as SchemaIssue from "effect/SchemaIssue"
import * as SchemaTransformation from "effect/SchemaTransformation"
import * as PayloadError from "../PayloadError.ts"
import * as base from "./base.ts"
import { check } from "./copyJson.ts"
import { type Options, resolveLimits } from "./limits.ts"
import { defined, formatPointer, kindAt, parsePointer } from "./values.ts"

/**
 * The key of an `AiError` reason's metadata under which a model marks, with `true`, a description that may be shown: it
 * quotes no message and holds no secret. Descriptions of other models stay out of messages, see
 * `AgentError.causeOf`. `ScriptedModel` marks the disagreements of a script and a program, and `AiSdk` the refusal of a
 * key, of a model's name or of a URL.
 */
export const publicDescription = "effect-emissary/publicDescription"

/** On an error about an answer that passes a limit: it is no mistake of the model, and the same answer would come again. */
export const overLimit = "effect-emissary/overLimit"

/** The problem of an answer that passes a limit. */
export const tooLargeAnswer = (of: string, expected: string, found: string): string =>
  `the answer of ${of}: expected ${expected}, got ${found}. Raise this limit with Limits.layer around the agent, or ask for less`

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
): ReturnType<typeof PayloadError.invalid> => {
  const { count, leaves } = leavesOf(issue, options.max)
  const issues: Array<PayloadError.Problem> = []
  let size = 0
  for (const leaf of leaves) {
    if (size > base.maxPaths) break
    const path = options.path + formatPointer(leaf.path)
    size += path.length
    const found = leaf.found ?? kindAt(input, leaf.path)
    issues.push({ path, expected: leaf.expected, found, ...defined({ fix: leaf.fix }) })
  }
  return PayloadError.invalid(issues, count - issues.length)
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
    return problem.path === "" ? value : new SchemaIssue.Pointer(parsePointer(problem.path), value)
  })
  return first === undefined
    ? new SchemaIssue.InvalidValue({ message: "Invalid" }, input, options)
    : new SchemaIssue.Composite(Schema.Json.ast, [first, ...rest], input, options)
}

/**
 * A Schema that reads and writes nothing but plain JSON within the limits, for values that no codec reads. What it writes is what the
 * given Schema writes.
 */
export const plainSchema = <T>(schema: Schema.Codec<T, unknown>): Schema.Codec<T, unknown> => {
  const plain = Schema.declareConstructor<unknown>()(
    [],
    () => (input, _, options) =>
      Effect.mapError(check(input), ({ problems }) => toSchemaIssue(problems, input, options)),
    { toCodecJson: () => Schema.link<unknown>()(Schema.toEncoded(schema), SchemaTransformation.passthrough()) }
  )
  return plain.pipe(Schema.decodeTo(schema))
}

interface Expectation {
  readonly expected: string
  readonly found?: string | undefined
  readonly fix?: string | undefined
}

interface Leaf extends Expectation {
  readonly path: ReadonlyArray<PropertyKey>
}

/** The first leaves of an issue, at most `max`, and the number of all: a hostile value has very many. */
const leavesOf = (root: SchemaIssue.Issue, max: number): { readonly leaves: Array<Leaf>; readonly count: number } => {
  const path: Array<PropertyKey> = []
  const leaves: Array<Leaf> = []
  let room = max
  let count = 0
  // The length of the path of the newest leaf
  let depth = 0

  const visit = (issue: SchemaIssue.Issue, message: string | undefined): void => {
    const isFull = leaves.length >= room
    switch (issue._tag) {
      case "Filter":
        return visit(issue.issue, message ?? (isFull ? undefined : messageOf(issue)))
      case "Encoding":
        return visit(issue.issue, message)
      case "Pointer":
        path.push(...issue.path)
        visit(issue.issue, message)
        path.length -= issue.path.length
        return
      case "Composite":
        for (const inner of issue.issues) visit(inner, message)
        return
      case "AnyOf":
        if (issue.issues.length > 0) return visitAlternatives(issue.issues, message)
    }
    count += 1
    depth = path.length
    if (!isFull) leaves.push({ path: [...path], ...expectationOf(issue, message) })
  }

  const visitAlternatives = (alternatives: ReadonlyArray<SchemaIssue.Issue>, message: string | undefined): void => {
    const [start, end] = [leaves.length, room]
    // Alternatives that all fail at this very place are one leaf, which needs the text of each
    if (start < end) room += alternatives.length
    let isOne = true
    for (const alternative of alternatives) {
      const before = count
      visit(alternative, message)
      isOne &&= count === before + 1 && depth === path.length
    }
    room = end
    if (isOne) count -= alternatives.length - 1
    if (isOne && start < end) leaves.push({ path: [...path], expected: joinExpected(leaves.splice(start)) })
    else leaves.splice(Math.max(start, end))
  }

  visit(root, undefined)
  return { leaves, count }
}

/** The name of a check is known to the check alone, and core's formatter asks it. */
const messageOf = (filter: SchemaIssue.Filter): string | undefined =>
  filter.issue._tag === "InvalidValue" ? formatIssue(filter) : SchemaIssue.defaultCheckHook(filter)

const expectationOf = (issue: SchemaIssue.Leaf | SchemaIssue.AnyOf, message: string | undefined): Expectation => {
  switch (issue._tag) {
    case "AnyOf":
      return { expected: trimExpected(message ?? formatIssue(issue)) }
    case "MissingKey": {
      const found = message ?? SchemaIssue.defaultLeafHook(issue)
      return { expected: found === "Missing key" ? "a value" : trimExpected(found), found: "nothing" }
    }
    case "UnexpectedKey":
      return { expected: "no such key" }
    case "InvalidValue": {
      const given = issue.annotations?.[issueAnnotation]
      if (isProblem(given)) return { expected: given.expected, found: given.found, fix: given.fix }
      return { expected: trimExpected(message ?? SchemaIssue.defaultLeafHook(issue)) }
    }
    default:
      return { expected: trimExpected(message ?? SchemaIssue.defaultLeafHook(issue)) }
  }
}

const formatIssue = (issue: SchemaIssue.Issue): string => formatSchemaIssue(issue).issues[0]?.message ?? "a valid value"

const joinExpected = (alternatives: ReadonlyArray<Leaf>): string =>
  [...new Set(alternatives.map((leaf) => leaf.expected))].join(" or ")

/** Core's messages begin with "Expected"; ours put the word in front themselves. */
const trimExpected = (message: string): string => base.truncateText(message.replace(/^expected /i, ""), 300)

const isProblem = (value: unknown): value is PayloadError.Problem =>
  typeof value === "object" && value !== null && "expected" in value && "found" in value && "path" in value

/** The problems that a Schema of Effect found in JSON. Decode with `{ errors: "all" }`, or there is one at most. */
export const problemsFromSchemaError = (
  error: Schema.SchemaError,
  input: unknown
): ReadonlyArray<PayloadError.Problem> =>
  reasonFromSchemaIssue(error.issue, input, { max: Number.POSITIVE_INFINITY, path: "" }).issues

const schemaOptions = (options: Options | undefined) =>
  ({ errors: "all", onExcessProperty: options?.onExcessProperty ?? "error" }) as const

const failDecoding = (error: Schema.SchemaError, input: unknown, options: Options | undefined) =>
  Effect.flatMap(resolveLimits(options?.limits), (limits) =>
    Effect.fail(
      new PayloadError.PayloadError({
        what: options?.what ?? "JSON",
        reason: reasonFromSchemaIssue(error.issue, input, { max: limits.maxIssues, path: options?.path ?? "" })
      })
    )
  )

/**
 * Decodes a value that already went through `Json.parse` or `Json.check`.
 *
 * **Details**
 *
 * Fails with `Invalid`, which lists every place up to `maxIssues` with what was
 * expected and the kind of what was found. Apply it to the codec once and use
 * the function many times.
 *
 * **Example** (All issues)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Effect, Schema } from "effect"
 * import { Json } from "effect-emissary/payload"
 *
 * const Order = Schema.Struct({ id: Schema.String, items: Schema.Array(Schema.Int) })
 * const decode = Json.decode(Order, { what: "order" })
 *
 * const error = Effect.runSync(Effect.flip(decode({ id: 7, items: [1, "two"] })))
 * assert.strictEqual(
 *   error.message,
 *   "order at /id: expected string, got number; at /items/1: expected number, got string"
 * )
 * ```
 *
 * @category decoding
 * @since 0.1.0
 */
export const decode = <T, RD = never>(
  codec: Schema.Decoder<T, RD>,
  options?: Options
): ((json: unknown) => Effect.Effect<T, PayloadError.PayloadError, RD>) => {
  const run = Schema.decodeUnknownEffect(codec, schemaOptions(options))
  return (json) => Effect.catch(run(json), (error) => failDecoding(error, json, options))
}

/** Encodes a value with a schema; the outcome is not checked. */
export const encodeUnchecked = <T, RE = never>(
  codec: Schema.Codec<T, unknown, unknown, RE>,
  options: Options | undefined
): ((value: T) => Effect.Effect<unknown, PayloadError.PayloadError, RE>) => {
  const run = base.once(() => Schema.encodeUnknownEffect(codec, schemaOptions(options)))
  return (value) => Effect.catch(run()(value), (error) => failDecoding(error, value, options))
}

/** A member of a tagged union whose JSON has the tag under `kind`, in another spelling. `keys` renames other members. */
export const kindStruct = <
  const Kind extends string,
  const Tag extends string,
  Fields extends Schema.Struct.Fields,
  const Keys extends { readonly [K in keyof Fields]?: PropertyKey }
>(
  kind: Kind,
  tag: Tag,
  fields: Fields,
  keys: Keys
) =>
  Schema.Struct({ _tag: Schema.Literal(kind).transform(tag), ...fields }).pipe(
    Schema.encodeKeys({ _tag: "kind", ...keys })
  )
