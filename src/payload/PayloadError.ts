/**
 * The one error of everything that reads untrusted data or writes data for
 * others, the shape of one {@link Problem}, and the text of problems.
 *
 * A {@link PayloadError} names the refused artefact in `what` and has the reason in
 * `reason`. Paths are JSON Pointers (RFC 6901): the empty string is the root,
 * `/tools/0/name` the name of the first tool.
 *
 * No message and no field ever holds a string that was found in the data,
 * except names: the key at which something was found, and the version tag.
 *
 * @since 0.1.0
 */

import * as JsonPointer from "effect/JsonPointer"
import * as Schema from "effect/Schema"
import * as base from "./internal/base.ts"

/** The number of problems that a message spells out. */
const maxShown = 10

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
}).annotate({ identifier: "Problem" })

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
        `${base.formatPlace(path)}: expected ${expected}, got ${found}${fix === undefined ? "" : `. ${fix}`}`
    )
  const rest = problems.length - lines.length + omitted
  return `${what} ${lines.join("; ")}${rest > 0 ? `; and ${rest} more` : ""}`.trim()
}

/**
 * Why a payload was refused.
 *
 * **Details**
 *
 * - `NotJson`: the text or the bytes are not one JSON document. `offset` counts
 *   from 0 to the first character that is wrong: UTF-16 code units of a string,
 *   bytes of bytes.
 * - `TooLarge`: a count went over its limit. `found` is the number counted when
 *   reading stopped, so the real size may be larger.
 * - `TooDeep`: `path` is the first array or object that is nested too deeply.
 * - `ForbiddenKey`: `__proto__`, a `constructor` that holds a `prototype`, or, where
 *   keys are names, the name of an inherited member. `path` ends with the key.
 * - `UnsupportedVersion`: the version tag is missing, of the wrong type, or none of the
 *   supported versions. `found` is the tag if it is a scalar, and `null` otherwise;
 *   `kind` distinguishes `"nothing"`, `"null"`, `"array"`, `"a signed envelope"` ...
 * - `Invalid`: the data is JSON but not of the expected form. `issues` holds every
 *   problem up to `maxIssues` of the limits; `omitted` counts the others.
 * - `Secret`: a `Redacted` value, or a value under a key of `Json.SecretNames`, was
 *   about to be written. The value is never part of the error.
 * - `Untrusted`: the host requires a signature, and this data has none that it trusts.
 *   `why`: there is none (`unsigned`) or none that can be read (`malformed`); it is for another
 *   artefact (`kind`) or another place (`subject`); the key is not known (`unknownKey`), revoked, not for this artefact
 *   (`keyKind`) or not for that time (`keyTime`); the data or the signature was changed
 *   (`signature`); it is too old (`expired`) or from the future (`notYetValid`).
 *
 * @category models
 * @since 0.1.0
 */
export const Reason = Schema.TaggedUnion({
  NotJson: { offset: Schema.Int, expected: Schema.String, found: Schema.String },
  TooLarge: {
    what: Schema.Literals(["bytes", "nodes", "string", "array", "object", "tools", "messages", "fuel"]),
    limit: Schema.Finite,
    found: Schema.Int,
    path: Schema.String
  },
  TooDeep: { limit: Schema.Finite, path: Schema.String },
  ForbiddenKey: { path: Schema.String, key: Schema.String },
  UnsupportedVersion: {
    field: Schema.String,
    found: Schema.Union([Schema.Finite, Schema.String, Schema.Boolean, Schema.Null]),
    kind: Schema.String,
    supported: Schema.Array(Schema.Int)
  },
  Invalid: { issues: Schema.Array(Problem), omitted: Schema.Int },
  Secret: { path: Schema.String, key: Schema.String, kind: Schema.Literals(["key", "redacted"]) },
  Untrusted: {
    why: Schema.Literals([
      "unsigned",
      "malformed",
      "kind",
      "subject",
      "unknownKey",
      "revoked",
      "keyKind",
      "keyTime",
      "signature",
      "expired",
      "notYetValid"
    ]),
    keyId: Schema.optionalKey(Schema.String)
  }
}).annotate({ identifier: "PayloadErrorReason" })

/**
 * Why a payload was refused.
 *
 * @category models
 * @since 0.1.0
 */
export type Reason = typeof Reason.Type

const measures = {
  bytes: ["bytes", "maxBytes"],
  nodes: ["values", "maxNodes"],
  string: ["UTF-16 code units in one string", "maxStringLength"],
  array: ["items in one array", "maxArrayLength"],
  object: ["keys in one object", "maxKeys"],
  tools: ["tools", "maxTools"],
  messages: ["messages", "maxMessages"],
  fuel: ["units of fuel, the measure of work", "maxFuel"]
} as const

const askSigner = "Get it from its signer again"
const trustKey = "Add the key to TrustedKeys if you trust it"
const signAgain = "Ask its signer to sign it again"

const signatureProblems = {
  unsigned: ["signed data", "data without a signature", "Sign it with Signed.sign"],
  malformed: ["a signature", "another text", "Sign it with Signed.sign"],
  kind: ["a signature of this artefact", "the signature of another artefact", "Sign it as what it is"],
  subject: [
    "a signature for this place",
    "a signature for another place, or for none",
    "Sign it for the place where it is read"
  ],
  unknownKey: ["a trusted key", "a key that is not known here", trustKey],
  revoked: ["a trusted key", "a revoked key", "Ask for a signature with another key"],
  keyKind: ["a key for this artefact", "a key for others", "Add the codec to the kinds of the key if you trust it"],
  keyTime: ["a key for the time of the signature", "a key for another time", signAgain],
  signature: ["data as it was signed", "changed data, or a changed signature", askSigner],
  expired: ["a valid signature", "an expired signature", signAgain],
  notYetValid: ["a valid signature", "a signature from the future", "Compare the clock with the clock of the signer"]
} as const

const explainKey = (key: string): string => {
  if (key === "__proto__") return "It would change the prototype of an object in careless code. Remove it"
  if (key === "constructor") return `It may not be a name or hold a "prototype" here. Rename it`
  return "Every object inherits a member of that name. Rename it"
}

const problemsOf: (reason: Reason) => ReadonlyArray<Problem> = Reason.match({
  NotJson: ({ expected, found, offset }) => [
    { path: "", expected, found: `${found} at offset ${offset}`, fix: "Send one JSON text" }
  ],
  TooLarge: ({ found, limit, path, what }) => {
    const [unit, option] = measures[what]
    const fix = `Send less, or raise ${option} in the limits of this call`
    return [{ path, expected: `at most ${limit} ${unit}`, found: `at least ${found}`, fix }]
  },
  TooDeep: ({ limit, path }) => {
    const fix = "Send flatter data, or raise maxDepth in the limits of this call"
    return [{ path, expected: `at most ${limit} levels of arrays and objects`, found: "more", fix }]
  },
  ForbiddenKey: ({ key, path }) => [{ path, expected: "another key", found: base.quote(key), fix: explainKey(key) }],
  UnsupportedVersion: ({ field, found, kind, supported }) => {
    const versions = supported.length === 1 ? String(supported[0]) : `one of ${supported.join(", ")}`
    const newer = typeof found === "number" && found > Math.max(...supported)
    return [
      {
        path: `/${JsonPointer.escapeToken(field)}`,
        expected: `a supported version, ${versions}`,
        found: found === null ? kind : JSON.stringify(found),
        fix: newer
          ? "Use a release that knows it, or write an older version"
          : kind === base.signedEnvelope
            ? "Decode it under Signed.required, or decode the payload that Signed.verify returns"
            : `Write ${versions} there, as a number`
      }
    ]
  },
  Invalid: ({ issues }) => issues,
  Secret: ({ key, kind, path }) => [
    {
      path,
      expected: "no secret",
      found: kind === "redacted" ? "a Redacted value" : `the secret key ${base.quote(key)}`,
      fix: "Refer to the secret by name, and provide it where it is used"
    }
  ],
  Untrusted: ({ keyId, why }) => {
    const [expected, found, fix] = signatureProblems[why]
    return [{ path: "", expected, found: keyId === undefined ? found : `${found} (key ${base.quote(keyId)})`, fix }]
  }
})

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
  /**
   * The reason as problems: the list of `Invalid`, or one problem for any other reason.
   *
   * @since 0.1.0
   */
  get problems(): ReadonlyArray<Problem> {
    return problemsOf(this.reason)
  }

  override get message(): string {
    const omitted = this.reason._tag === "Invalid" ? this.reason.omitted : 0
    return render(this.what, this.problems, omitted)
  }

  /**
   * A text for the person who sent the data: each place with the expected and the found, without the advice, which is for the
   * developer of the host.
   *
   * @since 0.1.0
   */
  get publicMessage(): string {
    const omitted = this.reason._tag === "Invalid" ? this.reason.omitted : 0
    const problems = this.problems.map(({ expected, found, path }) => ({ path, expected, found }))
    return `${render(this.what, problems, omitted)}.`
  }
}

/**
 * Builds the reason `Invalid` from problems, e.g. in a migration that finds
 * that data of an old version makes no sense.
 *
 * **Example** (Failing with one problem)
 *
 * ```ts
 * import assert from "node:assert"
 * import { PayloadError } from "effect-emissary"
 *
 * const reason = PayloadError.invalid([{ path: "/steps/0", expected: "a step", found: "nothing" }])
 * const error = new PayloadError.PayloadError({ what: "plan", reason })
 * assert.strictEqual(error.message, "plan at /steps/0: expected a step, got nothing")
 * ```
 *
 * @category constructors
 * @since 0.1.0
 */
export const invalid = (
  issues: ReadonlyArray<Problem>,
  omitted: number = 0
): Extract<Reason, { readonly _tag: "Invalid" }> => ({
  _tag: "Invalid",
  issues,
  omitted
})

/**
 * One thing that the chosen version cannot hold.
 *
 * **Details**
 *
 * `path` is a JSON Pointer into the value as the newest version writes it,
 * `what` names in words what would be lost.
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
 * **Example** (The message of the error)
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
    const lines = this.losses.slice(0, maxShown).map(({ path, what }) => `${what} (${base.formatPlace(path)})`)
    const rest = this.losses.length - lines.length
    const fix = "List what may be lost in allowLoss, or write a newer version"
    return `${this.what}: version ${this.version} cannot hold ${lines.join("; ")}${rest > 0 ? `; and ${rest} more` : ""}. ${fix}`
  }
}
