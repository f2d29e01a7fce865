/**
 * Codecs for data that lives longer than the code: a chain of frozen versions.
 *
 * Every released version is an {@link arm}: its number, the schema of exactly
 * its wire form, how to step from it towards the current value, and how to
 * write the current value in it, with what would be lost. An arm never changes
 * again; {@link make} puts arms together to one codec that reads every version
 * and writes the chosen one.
 *
 * @since 0.1.0
 */

import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as SchemaGetter from "effect/SchemaGetter"
import * as SchemaIssue from "effect/SchemaIssue"
import * as Json from "./Json.ts"
import * as PayloadError from "./PayloadError.ts"
import * as base from "./internal/base.ts"
import { copyRefusingSecrets, findSecret, matchesPattern, SecretNames } from "./internal/copyJson.ts"
import * as fuel from "./internal/fuel.ts"
import * as gate from "./internal/gate.ts"
import { IsOwnData, runWithLimits } from "./internal/limits.ts"
import { encodeUnchecked, toSchemaIssue } from "./internal/problems.ts"
import { writeText } from "./internal/textScanner.ts"
import { formatPointer, kindOf } from "./internal/values.ts"

/**
 * A value written in some version, and what that version could not hold.
 *
 * @category models
 * @since 0.1.0
 */
export interface WriteResult<out W> {
  readonly wire: W
  readonly losses: ReadonlyArray<PayloadError.Loss>
}

/**
 * One frozen version. `what` names the data in messages.
 *
 * @category models
 * @since 0.1.0
 */
export interface Arm<in out T> {
  readonly version: number
  /** Decodes JSON of this version to the current value. */
  readonly read: (json: Schema.Json, what: string) => Effect.Effect<T, PayloadError.PayloadError>
  /** Encodes the current value in this version; the codec checks that the outcome is JSON without secrets. */
  readonly write: (value: T, what: string) => Effect.Effect<WriteResult<unknown>, PayloadError.PayloadError>
}

const toPayloadError =
  (what: string) =>
  (error: PayloadError.Reason | PayloadError.PayloadError): PayloadError.PayloadError =>
    error._tag === "PayloadError" ? error : new PayloadError.PayloadError({ what, reason: error })

/**
 * Makes the arm of one version.
 *
 * **Example** (Two versions)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Effect, Schema } from "effect"
 * import { VersionedCodec } from "effect-emissary/payload"
 *
 * const Note = Schema.Struct({ title: Schema.String, tags: Schema.Array(Schema.String) })
 * type Note = typeof Note.Type
 *
 * const V2 = Schema.Struct({ version: Schema.Literal(2), ...Note.fields })
 * const v2 = VersionedCodec.arm({
 *   version: 2,
 *   wire: V2,
 *   toCurrent: ({ version: _, ...note }) => Effect.succeed(note),
 *   fromCurrent: (note: Note) => VersionedCodec.lossless({ version: 2 as const, ...note })
 * })
 *
 * const V1 = Schema.Struct({ version: Schema.Literal(1), title: Schema.String })
 * const v1 = VersionedCodec.arm({
 *   version: 1,
 *   wire: V1,
 *   toCurrent: ({ title }) => Effect.succeed<Note>({ title, tags: [] }),
 *   fromCurrent: (note: Note) =>
 *     VersionedCodec.lossy(
 *       { version: 1 as const, title: note.title },
 *       note.tags.length === 0 ? [] : [{ path: "/tags", what: "tags" }]
 *     )
 * })
 *
 * const codec = VersionedCodec.make({ what: "note", field: "version", type: Note, arms: [v1, v2] })
 *
 * const old = codec.decodeJson(`{ "version": 1, "title": "Milk" }`)
 * assert.deepStrictEqual(Effect.runSync(old), { title: "Milk", tags: [] })
 *
 * const lossy = codec.encode({ title: "Milk", tags: ["food"] }, { version: 1 })
 * assert.strictEqual(Effect.runSync(Effect.flip(lossy))._tag, "LossyEncoding")
 * ```
 *
 * @category constructors
 * @since 0.1.0
 */
export const arm = <T, W>(options: {
  /** The number of the version. */
  readonly version: number
  /** The Schema of exactly this version, the version field included. */
  readonly wire: Schema.Codec<W, unknown>
  /**
   * The treatment of keys that `wire` does not declare: `"error"` (default) refuses them, `"ignore"` leaves them out.
   */
  readonly onExcessProperty?: "error" | "ignore" | undefined
  /** All steps from the value of this version to the current value. */
  readonly toCurrent: (wire: W) => Effect.Effect<T, PayloadError.Reason | PayloadError.PayloadError>
  /**
   * Writes the current value in this version, see {@link lossless} and {@link lossy}. It fails with a reason such as
   * `PayloadError.invalid([...])` if nothing sensible can be written.
   */
  readonly fromCurrent: (current: T) => Effect.Effect<WriteResult<W>, PayloadError.Reason | PayloadError.PayloadError>
}): Arm<T> => ({
  version: options.version,
  read: (json, what) =>
    Json.decode(options.wire, { what, onExcessProperty: options.onExcessProperty })(json).pipe(
      Effect.flatMap((wire) => Effect.mapError(options.toCurrent(wire), toPayloadError(what)))
    ),
  write: (value, what) =>
    Effect.gen(function* () {
      const { losses, wire } = yield* Effect.mapError(options.fromCurrent(value), toPayloadError(what))
      yield* refuseRedacted(what, wire)
      return { wire: yield* encodeUnchecked(options.wire, { what })(wire), losses }
    })
})

/**
 * A value that the version holds without loss.
 *
 * **Example** (Nothing lost)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Effect } from "effect"
 * import { VersionedCodec } from "effect-emissary/payload"
 *
 * const written = Effect.runSync(VersionedCodec.lossless({ version: 1 }))
 * assert.deepStrictEqual(written, { wire: { version: 1 }, losses: [] })
 * ```
 *
 * @category constructors
 * @since 0.1.0
 */
export const lossless = <W>(wire: W): Effect.Effect<WriteResult<W>> => Effect.succeed({ wire, losses: [] })

/**
 * The result of writing a value that the version cannot hold completely. An empty list of losses is {@link lossless}.
 *
 * **Details**
 *
 * List everything that the reader of this version would not get back, each with
 * the JSON Pointer it has in the newest version.
 *
 * **Example** (Tags are lost)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Effect } from "effect"
 * import { VersionedCodec } from "effect-emissary/payload"
 *
 * const written = Effect.runSync(VersionedCodec.lossy({ version: 1 }, [{ path: "/tags", what: "tags" }]))
 * assert.strictEqual(written.losses.length, 1)
 * ```
 *
 * @category constructors
 * @since 0.1.0
 */
export const lossy = <W>(wire: W, losses: ReadonlyArray<PayloadError.Loss>): Effect.Effect<WriteResult<W>> =>
  Effect.succeed({ wire, losses })

/**
 * Limits that differ for one call.
 *
 * @category options
 * @since 0.1.0
 */
export type LimitOptions = Pick<Json.Options, "limits">

/**
 * Options of encoding.
 *
 * @category models
 * @since 0.1.0
 */
export interface EncodeOptions extends LimitOptions {
  /** The version to write; default the newest. An unknown version fails with `UnsupportedVersion`. */
  readonly version?: number | undefined
  /**
   * The losses that are allowed; none by default. A path allows whatever is lost just there (the token `*` is any one
   * token: `/tools/*\/success`), an entry of `LossyEncoding.losses` that very loss. A loss that does not happen may be
   * listed, too. Another loss fails with `LossyEncoding`.
   */
  readonly allowLoss?: ReadonlyArray<string | PayloadError.Loss> | undefined
}

/**
 * A codec that reads every version and writes the chosen one.
 *
 * @category models
 * @since 0.1.0
 */
export interface VersionedCodec<in out T> {
  readonly what: string
  /** The field that holds the version. */
  readonly field: string
  /** The supported versions, in ascending order. */
  readonly versions: ReadonlyArray<number>
  /** The newest version, which is written by default. */
  readonly current: number
  readonly decode: (input: unknown, options?: LimitOptions) => Effect.Effect<T, PayloadError.PayloadError>
  readonly decodeJson: (
    input: string | Uint8Array,
    options?: LimitOptions
  ) => Effect.Effect<T, PayloadError.PayloadError>
  readonly encode: (
    value: T,
    options?: EncodeOptions
  ) => Effect.Effect<Json.JsonObject, PayloadError.PayloadError | PayloadError.LossyEncoding>
  /** `indent` is the number of spaces per level, default 0. */
  readonly encodeJson: (
    value: T,
    options?: EncodeOptions & { readonly indent?: number | undefined }
  ) => Effect.Effect<string, PayloadError.PayloadError | PayloadError.LossyEncoding>
  /** The codec as a schema, to embed in other schemas: reads every version, writes the newest. */
  readonly schema: Schema.Codec<T, Schema.Json>
}

/**
 * Puts arms together to one codec.
 *
 * **Details**
 *
 * Encoding fails with `Secret` for `Redacted` values and keys of
 * `Json.SecretNames`, with `ForbiddenKey` for forbidden keys, and with
 * `LossyEncoding` for losses that the call does not allow.
 *
 * **Gotchas**
 *
 * Two arms of the same version, no arm at all, and an arm that writes another
 * version than its own are bugs of the program: operations die.
 *
 * **Example** (One version)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Effect, Schema } from "effect"
 * import { VersionedCodec } from "effect-emissary/payload"
 *
 * const Note = Schema.Struct({ title: Schema.String })
 * type Note = typeof Note.Type
 *
 * const v1 = VersionedCodec.arm({
 *   version: 1,
 *   wire: Schema.Struct({ version: Schema.Literal(1), title: Schema.String }),
 *   toCurrent: ({ title }) => Effect.succeed({ title }),
 *   fromCurrent: (note: Note) => VersionedCodec.lossless({ version: 1 as const, title: note.title })
 * })
 * const codec = VersionedCodec.make({ what: "note", field: "version", type: Note, arms: [v1] })
 *
 * assert.strictEqual(Effect.runSync(codec.encodeJson({ title: "Milk" })), `{"version":1,"title":"Milk"}`)
 *
 * const error = Effect.runSync(Effect.flip(codec.decode({ version: 2, title: "Milk" })))
 * assert.strictEqual(error.reason._tag, "UnsupportedVersion")
 * ```
 *
 * @category constructors
 * @since 0.1.0
 */
export const make = <T>(options: {
  /** The name of the data in messages. */
  readonly what: string
  /**
   * The name of the version field, which is read before anything else. If it is missing, not a number or no version of
   * `arms`, decoding fails with `UnsupportedVersion`.
   */
  readonly field: string
  /** The Schema of the value in memory. Only its type side is used, by `schema`. */
  readonly type: Schema.Schema<T>
  /** The supported versions, at least one. The newest version is written by default. */
  readonly arms: ReadonlyArray<Arm<T>>
  /**
   * Places below which keys are data and not options, as JSON Pointers, where the token `*` is any one token and `**`
   * any number of them; none by default. With `["/tools/*\/parameters"]` a tool may have a parameter called `password`.
   * `Redacted` values are found there all the same.
   */
  readonly data?: ReadonlyArray<string> | undefined
  /** The version of a document without the field; none by default. */
  readonly unversioned?: number | undefined
}): VersionedCodec<T> => {
  const { data = [], field, unversioned, what } = options
  const versions = [...new Set(options.arms.map((arm) => arm.version))].sort((a, b) => a - b)
  const current = versions.at(-1) ?? 0

  const armOf = (tag: unknown, kind = kindOf(tag)): Effect.Effect<Arm<T>, PayloadError.PayloadError> => {
    if (versions.length === 0 || versions.length < options.arms.length) {
      return Effect.die(new Error(`${what}: expected arms of different versions, found ${options.arms.length} arms`))
    }
    const arm = options.arms.find(({ version }) => version === tag)
    if (arm !== undefined) return Effect.succeed(arm)
    const reason = { _tag: "UnsupportedVersion", field, found: scalarOf(tag), kind, supported: versions } as const
    return Effect.fail(new PayloadError.PayloadError({ what, reason }))
  }

  const readOpened = (json: Schema.Json) =>
    Effect.gen(function* () {
      if (!Json.isObject(json)) {
        const issue = { path: "", expected: `an object with the field "${field}"`, found: kindOf(json) }
        return yield* new PayloadError.PayloadError({ what, reason: PayloadError.invalid([issue]) })
      }
      const hasTag = Object.hasOwn(json, field)
      const isSigned = !hasTag && typeof json["signature"] === "string"
      const arm = yield* armOf(hasTag ? json[field] : unversioned, isSigned ? base.signedEnvelope : undefined)
      const tagged = hasTag ? json : { ...json, [field]: arm.version }
      return yield* Effect.provideService(arm.read(tagged, what), IsOwnData, true)
    })

  const open = (json: Schema.Json) => gate.open(json, what, readOpened)

  const writeUnsealed = (value: T, encodeOptions: EncodeOptions | undefined) =>
    Effect.gen(function* () {
      const arm = yield* armOf(encodeOptions?.version ?? current)
      yield* refuseRedacted(what, value)
      const { losses, wire } = yield* arm.write(value, what)
      const names = yield* SecretNames
      const json = yield* runWithLimits({ what }, (limits) => copyRefusingSecrets(wire, limits, data, names))
      if (!Json.isObject(json) || json[field] !== arm.version) {
        return yield* Effect.die(new Error(`${what}: the arm of version ${arm.version} does not write its ${field}`))
      }
      const refused = losses.filter((loss) => !isAllowedLoss(loss, encodeOptions?.allowLoss ?? []))
      if (refused.length > 0)
        return yield* new PayloadError.LossyEncoding({ what, version: arm.version, losses: refused })
      return json
    })

  const write = (value: T, encodeOptions: EncodeOptions | undefined) =>
    gate.seal(what, writeUnsealed(value, encodeOptions))

  const decode = (input: unknown, decodeOptions?: LimitOptions) =>
    fuel.doorWithin(decodeOptions?.limits, Effect.flatMap(Json.check(input, { what }), open))

  const encode = (value: T, encodeOptions?: EncodeOptions) =>
    fuel.doorWithin(encodeOptions?.limits, write(value, encodeOptions))

  const schema = base.once(() => toSchema(options.type, decode, encode))

  return {
    what,
    field,
    versions,
    current,
    decode,
    decodeJson: (input, decodeOptions) =>
      fuel.doorWithin(decodeOptions?.limits, Effect.flatMap(Json.parse(input, { what }), open)),
    encode,
    encodeJson: (value, encodeOptions) =>
      fuel.doorWithin(
        encodeOptions?.limits,
        Effect.flatMap(write(value, encodeOptions), (json) =>
          runWithLimits({ what }, (limits) => writeText(json, limits, encodeOptions?.indent))
        )
      ),
    get schema() {
      return schema()
    }
  }
}

/**
 * A codec of one version that writes the value as it is: the shorthand of
 * {@link arm} and {@link make} for data that has had no older version.
 *
 * **Details**
 *
 * The document holds the version, then the members of `header`, then the value: under `member`, or else its own members
 * beside the version.
 *
 * **Example** (A value under a member, a value beside its version)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Effect, Schema } from "effect"
 * import { VersionedCodec } from "effect-emissary/payload"
 *
 * const Note = Schema.Struct({ title: Schema.String })
 * const note = VersionedCodec.single({ what: "note", value: Note, header: { kind: "note" } })
 * const notes = VersionedCodec.single({ what: "notes", value: Schema.Array(Note), member: "notes" })
 *
 * assert.strictEqual(
 *   Effect.runSync(note.encodeJson({ title: "Milk" })),
 *   `{"version":1,"kind":"note","title":"Milk"}`
 * )
 * assert.deepStrictEqual(Effect.runSync(notes.decodeJson(`{"version":1,"notes":[{"title":"Milk"}]}`)), [{ title: "Milk" }])
 * ```
 *
 * @category constructors
 * @since 0.1.0
 */
export const single = <T>(options: {
  /** The name of the data in messages. */
  readonly what: string
  /** The Schema of the value. */
  readonly value: Schema.Codec<T, unknown>
  /** The member that holds the value; default: the value's own members are beside the version. */
  readonly member?: string | undefined
  /** Members between the version and the value, with constant texts; none by default. */
  readonly header?: { readonly [key: string]: string } | undefined
  /** The number of the version; default 1. */
  readonly version?: number | undefined
  /** The name of the version field; default `"version"`. */
  readonly field?: string | undefined
  /** Places below which keys are data and not options, as for {@link make}; none by default. */
  readonly data?: ReadonlyArray<string> | undefined
}): VersionedCodec<T> => {
  const { field = "version", header = {}, member, value, version = 1, what } = options
  const heading = { [field]: version, ...header }
  const literals = Object.entries(heading).map(([key, literal]) => [key, Schema.Literal(literal)] as const)
  const Heading = Schema.Struct({
    ...Object.fromEntries(literals),
    ...(member === undefined ? undefined : { [member]: Schema.Unknown })
  })
  const readHeading = Json.decode(Heading, { what, onExcessProperty: member === undefined ? "ignore" : "error" })
  const place = { what, path: member === undefined ? "" : formatPointer([member]) }
  const readValue = Json.decode(value, place)
  const writeValue = encodeUnchecked(value, place)
  const bodyOf = (json: Json.JsonObject) =>
    member === undefined
      ? Object.fromEntries(Object.entries(json).filter(([key]) => !Object.hasOwn(heading, key)))
      : json[member]
  const arm: Arm<T> = {
    version,
    read: (json) => Effect.flatMap(readHeading(json), () => readValue(Json.isObject(json) ? bodyOf(json) : json)),
    write: (current) =>
      Effect.flatMap(writeValue(current), (json) => {
        const body = member === undefined ? json : { [member]: json }
        return typeof body === "object" && body !== null && !Array.isArray(body)
          ? lossless({ ...heading, ...body })
          : Effect.die(new Error(`${what}: expected a value that encodes to an object`))
      })
  }
  return make({ what, field, type: value, data: options.data, arms: [arm] })
}

/** The version as it is shown: scalars only, and no long text. */
const scalarOf = (tag: unknown): string | number | boolean | null => {
  if (typeof tag === "string") return base.truncateText(tag, 40)
  return typeof tag === "boolean" || (typeof tag === "number" && Number.isFinite(tag)) ? tag : null
}

const isAllowedLoss = (loss: PayloadError.Loss, allowed: ReadonlyArray<string | PayloadError.Loss>): boolean =>
  allowed.some((entry) =>
    typeof entry === "string" ? matchesPattern(entry, loss.path) : entry.path === loss.path && entry.what === loss.what
  )

/** Refuses a value that holds a `Redacted`, before a schema could unwrap it. */
const refuseRedacted = (what: string, value: unknown) => {
  const secret = findSecret(value, { keys: false })
  return secret === undefined ? Effect.void : Effect.fail(new PayloadError.PayloadError({ what, reason: secret }))
}

const toSchema = <T>(
  type: Schema.Schema<T>,
  decode: (input: unknown) => Effect.Effect<T, PayloadError.PayloadError>,
  encode: (value: T) => Effect.Effect<Schema.Json, PayloadError.PayloadError | PayloadError.LossyEncoding>
): Schema.Codec<T, Schema.Json> => {
  const target = Schema.toType(type)
  const toIssue = (error: PayloadError.PayloadError | PayloadError.LossyEncoding, input: unknown) =>
    error._tag === "PayloadError"
      ? toSchemaIssue(error.problems, input)
      : new SchemaIssue.InvalidValue({ message: error.message }, input, {})
  return Schema.Json.pipe(
    Schema.decodeTo(target, {
      decode: SchemaGetter.transformEffect((json: Schema.Json) =>
        Effect.mapError(decode(json), (error) => toIssue(error, json))
      ),
      encode: SchemaGetter.transformEffect((value: T) =>
        Effect.mapError(encode(value), (error) => toIssue(error, value))
      )
    })
  )
}
