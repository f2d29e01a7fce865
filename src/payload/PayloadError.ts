/**
 * The one error of everything that reads untrusted data or writes data for
 * others.
 *
 * A {@link PayloadError} says in `what` which artefact was refused and in
 * `reason` why. Paths are JSON Pointers (RFC 6901): the empty string is the
 * root, `/tools/0/name` the name of the first tool.
 *
 * No message and no field ever holds a string that was found in the data,
 * except names: the key at which something was found, and the version tag.
 *
 * @since 0.1.0
 */

import * as Schema from "effect/Schema"
import * as paths from "./internal/paths.ts"

/**
 * One problem of a value: where it is, which keyword found it, and what was
 * expected and found. It never quotes the value itself, only its kind.
 *
 * **Details**
 *
 * - `path` is the readable form, `items[1].qty`; `""` is the value itself.
 * - `pointer` is the same place as a JSON Pointer, `/items/1/qty`.
 * - A missing property is reported at the place where it should be.
 * - `keyword` is the JSON Schema keyword (`required`, `type`, ...), `schema` for what a
 *   Schema of Effect found, `json` for a value that is not plain JSON, or `budget` when
 *   validation was given up.
 * - `message` does not repeat the path; {@link renderIssues} joins both.
 *
 * @category models
 * @since 0.1.0
 */
export const ValidationIssue = Schema.Struct({
  path: Schema.String,
  pointer: Schema.String,
  keyword: Schema.String,
  message: Schema.String
})

/**
 * One problem that a value has with a JSON Schema.
 *
 * @category models
 * @since 0.1.0
 */
export type ValidationIssue = typeof ValidationIssue.Type

/**
 * One line of text for a list of issues, fit to be shown to a model or a person.
 *
 * **Example** (Telling a model what was wrong)
 *
 * ```ts
 * import assert from "node:assert"
 * import { PayloadError } from "effect-emissary"
 *
 * const text = PayloadError.renderIssues([
 *   { path: "items[1].qty", pointer: "/items/1/qty", keyword: "required", message: "is required" },
 *   { path: "name", pointer: "/name", keyword: "type", message: "expected string, got integer" }
 * ])
 * assert.strictEqual(text, "items[1].qty is required; name: expected string, got integer")
 * ```
 *
 * @category converting
 * @since 0.1.0
 */
export const renderIssues = (issues: ReadonlyArray<ValidationIssue>): string =>
  issues
    .map(({ message, path }) =>
      path === "" ? message : message.startsWith("is ") ? `${path} ${message}` : `${path}: ${message}`
    )
    .join("; ")

/**
 * One problem of a value: where it is, what was expected there, what was found, and
 * what to do about it. Every error of the package that refuses data is made of these.
 *
 * **Details**
 *
 * - `path` is a JSON Pointer; `""` is the value itself. A missing member is
 *   reported at the path where it should be.
 * - `found` is the kind of what is there (`"string"`, `"nothing"` ...), never the
 *   value itself.
 * - `fix` is a sentence without its full stop.
 * - `keyword` is the keyword of JSON Schema that found the problem, where one did.
 *
 * @category models
 * @since 0.1.0
 */
export const Problem = Schema.Struct({
  path: Schema.String,
  expected: Schema.String,
  found: Schema.String,
  fix: Schema.optionalKey(Schema.String),
  keyword: Schema.optionalKey(Schema.String)
})

/**
 * One problem of a value.
 *
 * @category models
 * @since 0.1.0
 */
export type Problem = typeof Problem.Type

/**
 * Writes problems as one line of text, for a message or for a model.
 *
 * **Details**
 *
 * `what` names the refused data and comes first. Ten problems are spelled out;
 * the others, and `omitted`, are counted.
 *
 * **Example** (Two problems)
 *
 * ```ts
 * import assert from "node:assert"
 * import { PayloadError } from "effect-emissary"
 *
 * const text = PayloadError.render("order", [
 *   { path: "/items/1/qty", expected: "a value", found: "nothing", fix: "Add it" },
 *   { path: "", expected: "object", found: "array" }
 * ])
 * assert.strictEqual(
 *   text,
 *   "order at /items/1/qty: expected a value, got nothing. Add it; at the root: expected object, got array"
 * )
 * ```
 *
 * @category converting
 * @since 0.1.0
 */
export const render = (what: string, problems: ReadonlyArray<Problem>, omitted: number = 0): string => {
  const lines = problems
    .slice(0, maxShown)
    .map(
      ({ expected, fix, found, path }) =>
        `${paths.formatPlace(path)}: expected ${expected}, got ${found}${fix === undefined ? "" : `. ${fix}`}`
    )
  const rest = problems.length - lines.length + omitted
  return `${what} ${lines.join("; ")}${rest > 0 ? `; and ${rest} more` : ""}`.trim()
}

/**
 * The text or the bytes are not one JSON document.
 *
 * **Details**
 *
 * `offset` counts from 0 to the first character that cannot stand where it
 * stands: UTF-16 code units when a string was read, bytes when bytes were read.
 * `message` says what was expected there.
 *
 * @category reasons
 * @since 0.1.0
 */
export class NotJson extends Schema.TaggedError<NotJson>("effect-emissary/payload/NotJson")("NotJson", {
  offset: Schema.Int,
  message: Schema.String
}) {}

/**
 * What a {@link TooLarge} reason counted.
 *
 * @category models
 * @since 0.1.0
 */
export const Measure = Schema.Literals(["bytes", "nodes", "string", "array", "tools", "messages"])

/**
 * What a {@link TooLarge} reason counted.
 *
 * @category models
 * @since 0.1.0
 */
export type Measure = typeof Measure.Type

/**
 * A count went over its limit.
 *
 * **Details**
 *
 * `found` is the number counted when reading stopped, so the real size may be
 * larger. `path` is where the count was taken.
 *
 * @category reasons
 * @since 0.1.0
 */
export class TooLarge extends Schema.TaggedError<TooLarge>("effect-emissary/payload/TooLarge")("TooLarge", {
  what: Measure,
  limit: Schema.Finite,
  found: Schema.Int,
  path: Schema.String
}) {
  override get message(): string {
    return renderTooLarge(this)
  }
}

/**
 * Arrays and objects are nested deeper than the limit; `path` is the first
 * container that is too deep.
 *
 * @category reasons
 * @since 0.1.0
 */
export class TooDeep extends Schema.TaggedError<TooDeep>("effect-emissary/payload/TooDeep")("TooDeep", {
  limit: Schema.Finite,
  path: Schema.String
}) {
  override get message(): string {
    return renderTooDeep(this)
  }
}

/**
 * A key that may not occur: `__proto__`, a `constructor` that holds a
 * `prototype`, or, where keys are names, the name of an inherited member.
 *
 * **Details**
 *
 * `path` leads to the key itself and ends with it.
 *
 * @category reasons
 * @since 0.1.0
 */
export class ForbiddenKey extends Schema.TaggedError<ForbiddenKey>("effect-emissary/payload/ForbiddenKey")(
  "ForbiddenKey",
  { path: Schema.String, key: Schema.String }
) {
  override get message(): string {
    return renderForbiddenKey(this)
  }
}

/**
 * The version tag is missing, of the wrong type, or none of the supported
 * versions.
 *
 * **Details**
 *
 * `found` is the tag if it is a number, a boolean, `null` or a (shortened)
 * string, and `null` otherwise; `kind` tells `"nothing"`, `"null"`, `"array"`
 * ... apart.
 *
 * @category reasons
 * @since 0.1.0
 */
export class UnsupportedVersion extends Schema.TaggedError<UnsupportedVersion>(
  "effect-emissary/payload/UnsupportedVersion"
)("UnsupportedVersion", {
  field: Schema.String,
  found: Schema.Union([Schema.Finite, Schema.String, Schema.Boolean, Schema.Null]),
  kind: Schema.String,
  supported: Schema.Array(Schema.Int)
}) {
  override get message(): string {
    return renderUnsupportedVersion(this)
  }
}

/**
 * The data is JSON but not of the expected form.
 *
 * **Details**
 *
 * `issues` holds every problem up to `maxIssues` of the limits; `omitted`
 * counts the others.
 *
 * @category reasons
 * @since 0.1.0
 */
export class Invalid extends Schema.TaggedError<Invalid>("effect-emissary/payload/Invalid")("Invalid", {
  issues: Schema.Array(Problem),
  omitted: Schema.Int
}) {
  override get message(): string {
    return renderInvalid(this)
  }
}

/**
 * A secret was about to be written: a `Redacted` value, or a value under a key
 * of the published list in `SecretKeys`.
 *
 * **Details**
 *
 * `path` leads to it and `key` is the last key of the path. The value is never
 * part of the error.
 *
 * @category reasons
 * @since 0.1.0
 */
export class Secret extends Schema.TaggedError<Secret>("effect-emissary/payload/Secret")("Secret", {
  path: Schema.String,
  key: Schema.String,
  kind: Schema.Literals(["key", "redacted"])
}) {
  override get message(): string {
    return renderSecret(this)
  }
}

/**
 * Why a payload was refused.
 *
 * @category models
 * @since 0.1.0
 */
export const Reason = Schema.Union([NotJson, TooLarge, TooDeep, ForbiddenKey, UnsupportedVersion, Invalid, Secret])

/**
 * Why a payload was refused.
 *
 * @category models
 * @since 0.1.0
 */
export type Reason = typeof Reason.Type

/**
 * The error of everything that reads untrusted data or writes data for others.
 *
 * **When to use**
 *
 * Handle it with `Effect.catchTag("PayloadError", ...)`, or one reason of it
 * with `Effect.catchReason("PayloadError", "TooLarge", ...)`. It is a schema
 * too, so it travels over a wire.
 *
 * **Example** (Handling one reason)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Effect } from "effect"
 * import { Json } from "effect-emissary/payload"
 *
 * const program = Json.parse("[1, 2, 3]", { what: "numbers", limits: { maxArrayLength: 2 } }).pipe(
 *   Effect.catchReason("PayloadError", "TooLarge", (reason) => Effect.succeed(`at most ${reason.limit} items`))
 * )
 *
 * assert.strictEqual(Effect.runSync(program), "at most 2 items")
 * ```
 *
 * @category errors
 * @since 0.1.0
 */
export class PayloadError extends Schema.TaggedError<PayloadError>("effect-emissary/payload/PayloadError")(
  "PayloadError",
  { what: Schema.String, reason: Reason }
) {
  override get message(): string {
    return `${this.what}: ${this.reason.message}`
  }
}

/**
 * Builds the reason {@link Invalid} from issues, e.g. in a migration that finds
 * that data of an old version makes no sense.
 *
 * **Example** (Failing with one issue)
 *
 * ```ts
 * import assert from "node:assert"
 * import { PayloadError } from "effect-emissary"
 *
 * const reason = PayloadError.invalid([{ path: "/steps/0", expected: "a step", found: "nothing" }])
 * assert.strictEqual(reason.issues.length, 1)
 * ```
 *
 * @category constructors
 * @since 0.1.0
 */
export const invalid = (issues: ReadonlyArray<Problem>, omitted: number = 0): Invalid =>
  new Invalid({ issues, omitted })

/**
 * One thing that the chosen version cannot hold.
 *
 * **Details**
 *
 * `path` is a JSON Pointer into the value as the newest version writes it,
 * `what` says in words what would be lost.
 *
 * @category models
 * @since 0.1.0
 */
export const Loss = Schema.Struct({ path: Schema.String, what: Schema.String })

/**
 * One thing that the chosen version cannot hold.
 *
 * @category models
 * @since 0.1.0
 */
export type Loss = typeof Loss.Type

/**
 * Writing in an older version would lose something that the call did not allow
 * to be lost.
 *
 * **Details**
 *
 * `losses` holds what was not allowed. Repeat the call with
 * `allowLoss: error.losses`, or with those paths, to lose exactly that.
 *
 * **Example** (What the error says)
 *
 * ```ts
 * import assert from "node:assert"
 * import { PayloadError } from "effect-emissary"
 *
 * const error = new PayloadError.LossyEncoding({
 *   what: "note",
 *   version: 1,
 *   losses: [{ path: "/tags", what: "tags" }]
 * })
 * assert.match(error.message, /^note: version 1 cannot hold tags \(at \/tags\)/)
 * ```
 *
 * @category errors
 * @since 0.1.0
 */
export class LossyEncoding extends Schema.TaggedError<LossyEncoding>("effect-emissary/payload/LossyEncoding")(
  "LossyEncoding",
  { what: Schema.String, version: Schema.Int, losses: Schema.Array(Loss) }
) {
  override get message(): string {
    return renderLosses(this)
  }
}

/** How many issues a message spells out; the others are in `issues`. */
const maxShown = 10

const quoteText = (text: string): string => JSON.stringify(paths.truncateText(text))

const measureUnits = {
  bytes: ["bytes", "maxBytes"],
  nodes: ["values", "maxNodes"],
  string: ["UTF-16 code units in one string", "maxStringLength"],
  array: ["items in one array", "maxArrayLength"],
  tools: ["tools", "maxTools"],
  messages: ["messages", "maxMessages"]
} as const

const renderTooLarge = (reason: Pick<TooLarge, "what" | "limit" | "found" | "path">): string => {
  const [unit, option] = measureUnits[reason.what]
  return (
    `too large ${paths.formatPlace(reason.path)}: expected at most ${reason.limit} ${unit}, found at least ${reason.found}. ` +
    `Send less, or raise ${option} in the limits of this call`
  )
}

const renderTooDeep = (reason: Pick<TooDeep, "limit" | "path">): string =>
  `nested too deep ${paths.formatPlace(reason.path)}: expected at most ${reason.limit} levels of arrays and objects. ` +
  `Send flatter data, or raise maxDepth in the limits of this call`

const renderForbiddenKey = (reason: Pick<ForbiddenKey, "path" | "key">): string =>
  `the key ${quoteText(reason.key)} is not allowed ${paths.formatPlace(reason.path)}: ` +
  (reason.key === "__proto__"
    ? "it would change an object's prototype in careless code. Remove it"
    : reason.key === "constructor"
      ? `here it may not be a name or hold a "prototype". Rename it`
      : "every object inherits a member of that name. Rename it")

const renderUnsupportedVersion = (
  reason: Pick<UnsupportedVersion, "field" | "found" | "kind" | "supported">
): string => {
  const found =
    reason.kind === "nothing"
      ? "nothing"
      : reason.kind === "string" || reason.kind === "number" || reason.kind === "boolean" || reason.kind === "null"
        ? JSON.stringify(reason.found)
        : reason.kind === "array" || reason.kind === "object"
          ? `an ${reason.kind}`
          : reason.kind
  const supported = reason.supported.join(", ")
  const newest = Math.max(...reason.supported)
  const advice =
    typeof reason.found === "number" && reason.found > newest
      ? "Use a release that knows it, or write an older version"
      : `Write one of ${supported} there, as a number`
  return `unsupported ${reason.field}: expected one of ${supported}, found ${found}. ${advice}`
}

const renderInvalid = (reason: Pick<Invalid, "issues" | "omitted">): string => {
  const lines = reason.issues
    .slice(0, maxShown)
    .map((issue) => `${paths.formatPlace(issue.path)}: expected ${issue.expected}, found ${issue.found}`)
  const rest = reason.issues.length - lines.length + reason.omitted
  return `${lines.join("; ")}${rest > 0 ? `; and ${rest} more` : ""}`
}

const renderLosses = (error: Pick<LossyEncoding, "what" | "version" | "losses">): string => {
  const losses = error.losses.slice(0, maxShown).map((loss) => `${loss.what} (${paths.formatPlace(loss.path)})`)
  const rest = error.losses.length - losses.length
  return (
    `${error.what}: version ${error.version} cannot hold ${losses.join("; ")}${rest > 0 ? `; and ${rest} more` : ""}. ` +
    "List what may be lost in allowLoss, or write a newer version"
  )
}

const renderSecret = (reason: Pick<Secret, "path" | "key" | "kind">): string =>
  `${reason.kind === "redacted" ? "a Redacted value" : `the secret key ${quoteText(reason.key)}`} ${paths.formatPlace(reason.path)} ` +
  "may not be written. Refer to the secret by name, and provide it where it is used"
