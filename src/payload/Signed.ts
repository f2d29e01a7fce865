/**
 * Signatures of artefacts: who wrote an agent, a plan, a conversation or a run,
 * and that nothing was changed since.
 *
 * {@link sign} signs the JSON that a codec wrote, {@link verify} checks it
 * against the {@link TrustedKeys} of the host, and {@link required} makes every
 * codec of the package ask for a signature before it reads anything.
 *
 * **Details**
 *
 * A signature is a detached JSON Web Signature (RFC 7515, appendix F) with Ed25519 (RFC 8037 and 9864) over the
 * canonical JSON of the artefact (RFC 8785). So white space and the order of keys do not matter, the artefact stays
 * readable beside its signature, and every JOSE library can check it: the JWS payload is the text of
 * `Digest.canonicalize`. The protected header holds the key id, the artefact's name (`kind`), and the times; so a
 * signed conversation is not accepted as an agent. The header of a stored record also holds the key of the record in
 * the store (`sub`). The version is part of the artefact. DSSE, the other candidate, leaves the key id unsigned and has
 * no place for times.
 *
 * Ed25519 comes from Web Crypto, which Node, Deno and browsers have, and not from
 * another dependency. It is asynchronous, so programs that verify or sign need
 * `Effect.runPromise` and cannot run with `Effect.runSync`; programs without
 * signatures never touch it. Times come from the `Clock`.
 *
 * **Gotchas**
 *
 * A signature proves who wrote the data, not that it is the newest: an older state
 * with its signature is accepted again. Use `expiresIn`, or keep the newest
 * version number where only you can write.
 *
 * @since 0.1.0
 */

import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as Base64 from "effect/encoding/Base64"
import * as Base64Url from "effect/encoding/Base64Url"
import * as callOptions from "./internal/options.ts"
import * as Digest from "./Digest.ts"
import * as Json from "./Json.ts"
import * as PayloadError from "./PayloadError.ts"
import * as gate from "./internal/gate.ts"

/**
 * The kind of data that is signed: a `VersionedCodec` has it as its name.
 *
 * @category models
 * @since 0.1.0
 */
export interface Artefact {
  readonly what: string
}

/**
 * An artefact with its signature.
 *
 * **Details**
 *
 * `payload` is the artefact as its codec wrote it. `signature` is a detached JWS
 * in compact form, `"<header>..<signature>"`: to keep it apart from the
 * artefact, store it alone, and put both together again to verify them.
 *
 * @category models
 * @since 0.1.0
 */
export interface Envelope extends Json.JsonObject {
  readonly payload: Schema.Json
  readonly signature: string
}

const Envelope = Schema.Struct({ payload: Schema.Json, signature: Schema.String })

const Header = Schema.Struct({
  // RFC 9864: the fully specified name of EdDSA on Curve25519. No other one is read.
  alg: Schema.Literal("Ed25519"),
  typ: Schema.Literal("effect-emissary+jws"),
  kid: Schema.String,
  kind: Schema.String,
  sub: Schema.optionalKey(Schema.String),
  // Seconds since 1970, as in RFC 7519
  iat: Schema.Finite,
  exp: Schema.optionalKey(Schema.Finite)
})

type Header = typeof Header.Type

/**
 * A verified artefact: its JSON, and who signed it when.
 *
 * @category models
 * @since 0.1.0
 */
export interface Verified {
  readonly payload: Schema.Json
  /** The name of the artefact's codec, e.g. `"Agent definition"`. */
  readonly kind: string
  /** The place that it was signed for, e.g. its key in a store. */
  readonly subject: string | undefined
  readonly keyId: string
  readonly signedAt: DateTime.Utc
  readonly expiresAt: DateTime.Utc | undefined
}

/**
 * A private key and the id by which verifiers find its public half.
 *
 * **Details**
 *
 * `privateKey` is PEM with PKCS #8, as `openssl genpkey -algorithm ed25519` and
 * {@link generateKeys} write it.
 *
 * @category models
 * @since 0.1.0
 */
export interface SigningKey {
  readonly keyId: string
  readonly privateKey: Redacted.Redacted
}

/**
 * A public key that a host trusts.
 *
 * **Details**
 *
 * - `publicKey`: PEM, as `openssl pkey -pubout` and {@link generateKeys} write it.
 * - `kinds`: the codecs whose artefacts the key may sign, e.g. `[Plan.codec]`;
 *   default all.
 * - `from`, `until`: when signatures of the key may have been made; `until` is
 *   exclusive. Retire a key with `until`, and what it signed before stays valid.
 * - `revoked`: refuses everything that the key signed, whatever the time of the signature. The
 *   holder of a stolen key can write any time into it, so `until` is not enough for it.
 *
 * @category models
 * @since 0.1.0
 */
export interface TrustedKey {
  readonly keyId: string
  readonly publicKey: string
  readonly kinds?: ReadonlyArray<Artefact> | undefined
  readonly from?: DateTime.Utc | undefined
  readonly until?: DateTime.Utc | undefined
  readonly revoked?: boolean | undefined
}

/**
 * The keys that a host trusts, found by their id.
 *
 * **When to use**
 *
 * {@link layerTrustedKeys} holds a list. Implement `find` to look keys up elsewhere,
 * e.g. in a table, where they are added and revoked while the host runs.
 *
 * @category services
 * @since 0.1.0
 */
export class TrustedKeys extends Context.Service<
  TrustedKeys,
  { readonly find: (keyId: string) => Effect.Effect<Option.Option<TrustedKey>, PayloadError.PayloadError> }
>()("effect-emissary/payload/TrustedKeys") {}

/**
 * Trusts the listed keys.
 *
 * **Details**
 *
 * Rotate by listing the old and the new key, the old one with `until`. The layer
 * fails with a `PayloadError` for a public key that cannot be read, and for two
 * keys of one id.
 *
 * @category layers
 * @since 0.1.0
 */
export const layerTrustedKeys = (
  keys: ReadonlyArray<TrustedKey>
): Layer.Layer<TrustedKeys, PayloadError.PayloadError> =>
  Layer.effect(
    TrustedKeys,
    Effect.gen(function* () {
      const byId = new Map<string, TrustedKey>()
      for (const [index, key] of keys.entries()) {
        yield* importPublic(key, `/${index}`)
        if (byId.has(key.keyId)) {
          const issue = { path: `/${index}/keyId`, expected: "an id of its own", found: "the id of an earlier key" }
          return yield* new PayloadError.PayloadError({ what: "trusted keys", reason: PayloadError.invalid([issue]) })
        }
        byId.set(key.keyId, key)
      }
      return { find: (keyId) => Effect.succeed(Option.fromUndefinedOr(byId.get(keyId))) }
    })
  )

const algorithm = "Ed25519"

/** The bytes inside PEM, or of text that is not PEM none that a key could be read from. */
const bytesOfPem = (pem: string, label: string) => {
  const body = new RegExp(`^\\s*-----BEGIN ${label}-----([A-Za-z0-9+/=\\s]*)-----END ${label}-----\\s*$`).exec(pem)?.[1]
  return Effect.map(Effect.fromResult(Base64.decode((body ?? "").replace(/\s/g, ""))), (bytes) => new Uint8Array(bytes))
}

const toPem = (bytes: ArrayBuffer, label: string) =>
  `-----BEGIN ${label}-----\n${Base64.encode(new Uint8Array(bytes))}\n-----END ${label}-----\n`

const publicLabel = "PUBLIC KEY"
const privateLabel = "PRIVATE KEY"

/** The problem never quotes the key. */
const notAKey = (what: string, path: string, label: string) =>
  new PayloadError.PayloadError({
    what,
    reason: PayloadError.invalid([
      {
        path,
        expected: `an Ed25519 key as PEM, "-----BEGIN ${label}-----"`,
        found: "another text, or a platform without Ed25519 in Web Crypto"
      }
    ])
  })

const importPublic = ({ publicKey }: TrustedKey, path: string) =>
  bytesOfPem(publicKey, publicLabel).pipe(
    Effect.flatMap((bytes) =>
      Effect.tryPromise(() => crypto.subtle.importKey("spki", bytes, algorithm, false, ["verify"]))
    ),
    Effect.mapError(() => notAKey("trusted keys", `${path}/publicKey`, publicLabel))
  )

const importPrivate = ({ privateKey }: SigningKey) =>
  bytesOfPem(Redacted.value(privateKey), privateLabel).pipe(
    Effect.flatMap((bytes) =>
      Effect.tryPromise(() => crypto.subtle.importKey("pkcs8", bytes, algorithm, false, ["sign"]))
    ),
    Effect.mapError(() => notAKey("signing key", "/privateKey", privateLabel))
  )

/**
 * A new pair of keys, as PEM.
 *
 * @category keys
 * @since 0.1.0
 */
export const generateKeys: Effect.Effect<{
  readonly publicKey: string
  readonly privateKey: Redacted.Redacted
}> = Effect.gen(function* () {
  const { privateKey, publicKey } = yield* Effect.promise(() =>
    crypto.subtle.generateKey(algorithm, true, ["sign", "verify"])
  )
  const spki = yield* Effect.promise(() => crypto.subtle.exportKey("spki", publicKey))
  const pkcs8 = yield* Effect.promise(() => crypto.subtle.exportKey("pkcs8", privateKey))
  return { publicKey: toPem(spki, publicLabel), privateKey: Redacted.make(toPem(pkcs8, privateLabel)) }
})

/** The bytes that a JWS signs (RFC 7515, 5.1). */
const signingInput = (header: string, payload: Schema.Json) =>
  Effect.map(Effect.fromResult(Digest.canonicalize(payload)), (canonical) =>
    new TextEncoder().encode(`${header}.${Base64Url.encode(canonical)}`)
  )

/**
 * Signs an artefact.
 *
 * **Details**
 *
 * Fails with a `PayloadError` when the key cannot be read, or the JSON holds a lone
 * surrogate, which has no canonical form.
 *
 * **Example** (Signed by one, verified by another)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Effect } from "effect"
 * import { AgentDefinition } from "effect-emissary"
 * import { Signed } from "effect-emissary/payload"
 *
 * const program = Effect.gen(function*() {
 *   const { privateKey, publicKey } = yield* Signed.generateKeys
 *   const agent = { schema_version: 2, model: "openai/gpt-5.2" }
 *
 *   const envelope = yield* Signed.sign(agent, {
 *     as: AgentDefinition.codec,
 *     key: { keyId: "team-a-2026", privateKey },
 *     expiresIn: "30 days"
 *   })
 *
 *   const keys = Signed.layerTrustedKeys([{ keyId: "team-a-2026", publicKey, kinds: [AgentDefinition.codec] }])
 *   const verified = yield* Effect.provide(Signed.verify(envelope, { as: AgentDefinition.codec }), keys)
 *   assert.strictEqual(verified.keyId, "team-a-2026")
 *   assert.deepStrictEqual(verified.payload, agent)
 *
 *   const changed = { ...envelope, payload: { ...agent, model: "evil/model" } }
 *   const error = yield* Effect.flip(Effect.provide(Signed.verify(changed, { as: AgentDefinition.codec }), keys))
 *   assert.strictEqual(error.reason._tag, "Untrusted")
 * })
 *
 * await Effect.runPromise(program)
 * ```
 *
 * @category signing
 * @since 0.1.0
 */
export const sign: (
  json: Schema.Json,
  options: {
    /**
     * The codec that wrote the JSON, `AgentDefinition.codec` for example. Its name is signed, too, so the JSON is
     * accepted as nothing else.
     */
    readonly as: Artefact
    /** The private key. It is neither written nor logged. */
    readonly key: SigningKey
    /**
     * The one place that the artefact is signed for, such as a key in a store of your own; none by default. Ask for it
     * with `subject` of {@link verify}.
     */
    readonly subject?: string | undefined
    /** The time for which verifiers accept the signature; default for ever. */
    readonly expiresIn?: Duration.Input | undefined
  }
) => Effect.Effect<Envelope, PayloadError.PayloadError> = Effect.fnUntraced(function* (payload, options) {
  yield* callOptions.check("Signed.sign", { expiresIn: callOptions.someTime }, options)
  const key = yield* importPrivate(options.key)
  const now = yield* Clock.currentTimeMillis
  const header: Header = {
    alg: algorithm,
    typ: "effect-emissary+jws",
    kid: options.key.keyId,
    kind: options.as.what,
    ...(options.subject === undefined ? undefined : { sub: options.subject }),
    iat: now / 1000,
    ...(options.expiresIn === undefined
      ? undefined
      : { exp: (now + Duration.toMillis(Duration.fromInputUnsafe(options.expiresIn))) / 1000 })
  }
  const encoded = Base64Url.encode(JSON.stringify(header))
  const input = yield* signingInput(encoded, payload)
  const bytes = yield* Effect.promise(() => crypto.subtle.sign(algorithm, key, input))
  return { payload, signature: `${encoded}..${Base64Url.encode(new Uint8Array(bytes))}` }
})

/** Clocks of different machines differ: a signature may be made so many milliseconds from now. */
const clockTolerance = 60_000

type Why = Extract<PayloadError.Reason, { readonly _tag: "Untrusted" }>["why"]

const decodeEnvelope = Schema.decodeUnknownOption(Envelope, { onExcessProperty: "error" })

/** An unknown header parameter is refused: it could be critical to the signer (RFC 7515, 4.1.11). */
const decodeHeader = Json.decodeJson(Header, { what: "header of a signature" })

/** The parts of a detached JWS; text that no encoder writes, such as spare bits that are set, is none. */
const decodeSignature = (text: string) => {
  const [header = "", payload, signature = "", ...more] = text.split(".")
  const bytes = Result.all([Base64Url.decode(header), Base64Url.decode(signature)])
  if (payload !== "" || more.length > 0 || Result.isFailure(bytes)) return Effect.fail("malformed" as const)
  const [headerBytes, signatureBytes] = bytes.success
  if (Base64Url.encode(headerBytes) !== header || Base64Url.encode(signatureBytes) !== signature) {
    return Effect.fail("malformed" as const)
  }
  return decodeHeader(headerBytes).pipe(
    Effect.map((read) => ({ header: read, encoded: header, signature: new Uint8Array(signatureBytes) })),
    Effect.mapError(() => "malformed" as const)
  )
}

/** Milliseconds of a time in a header. */
const millisOf = (seconds: number) => Math.round(seconds * 1000)

const toUtc = (seconds: number) => DateTime.make(millisOf(seconds))

/** Why a key may not have made a signature with this header. */
const refusalOf = (key: TrustedKey, { iat, kind }: Header): Why | undefined => {
  if (key.revoked === true) return "revoked"
  if (key.kinds !== undefined && !key.kinds.some(({ what }) => what === kind)) return "keyKind"
  const millis = millisOf(iat)
  if (key.from !== undefined && millis < DateTime.toEpochMillis(key.from)) return "keyTime"
  if (key.until !== undefined && millis >= DateTime.toEpochMillis(key.until)) return "keyTime"
  return undefined
}

const verifyJson = Effect.fnUntraced(function* (json: Schema.Json, what: string, subject: string | undefined) {
  const refuse = (why: Why, keyId?: string) =>
    new PayloadError.PayloadError({
      what,
      reason: { _tag: "Untrusted", why, ...(keyId === undefined ? {} : { keyId }) }
    })
  const { find } = yield* TrustedKeys
  const envelope = decodeEnvelope(json)
  if (Option.isNone(envelope)) return yield* refuse("unsigned")
  const { payload, signature: text } = envelope.value
  const { encoded, header, signature } = yield* Effect.mapError(decodeSignature(text), (why) => refuse(why))
  const { kid } = header
  if (header.kind !== what) return yield* refuse("kind", kid)
  if (subject !== undefined && header.sub !== subject) return yield* refuse("subject", kid)
  const found = yield* find(kid)
  if (Option.isNone(found)) return yield* refuse("unknownKey", kid)
  const refusal = refusalOf(found.value, header)
  if (refusal !== undefined) return yield* refuse(refusal, kid)

  const key = yield* importPublic(found.value, "")
  const input = yield* signingInput(encoded, payload)
  const isValid = yield* Effect.orElseSucceed(
    Effect.tryPromise(() => crypto.subtle.verify(algorithm, key, signature, input)),
    () => false
  )
  if (!isValid) return yield* refuse("signature", kid)

  const now = yield* Clock.currentTimeMillis
  const signedAt = toUtc(header.iat)
  const expiresAt = header.exp === undefined ? Option.none() : toUtc(header.exp)
  if (Option.isNone(signedAt) || (header.exp !== undefined && Option.isNone(expiresAt)))
    return yield* refuse("malformed", kid)
  if (millisOf(header.iat) > now + clockTolerance) return yield* refuse("notYetValid", kid)
  if (header.exp !== undefined && millisOf(header.exp) <= now) return yield* refuse("expired", kid)
  return {
    payload,
    kind: what,
    subject: header.sub,
    keyId: kid,
    signedAt: signedAt.value,
    expiresAt: Option.getOrUndefined(expiresAt)
  } satisfies Verified
})

/**
 * Verifies an {@link Envelope}, and returns the artefact and who signed it.
 *
 * **When to use**
 *
 * Use it where some artefacts must be signed, then decode `payload`. Where all must be,
 * {@link required} asks at every decode.
 *
 * **Details**
 *
 * Fails with a `PayloadError` whose reason is `Untrusted` with `why`, or one of
 * `Json.check`. With `subject`, only a signature for that place is accepted. Times are compared with the `Clock`; a signature from up to one
 * minute in the future is accepted, for clocks differ. Decode nothing but `payload` of the
 * result.
 *
 * @category verifying
 * @since 0.1.0
 */
export const verify: (
  input: unknown,
  options: {
    /** The codec that reads the artefact. A signature for another codec is `Untrusted`. */
    readonly as: Artefact
    /** The place that the artefact has to be signed for; default: any. */
    readonly subject?: string | undefined
    /** Limits of the JSON, where they differ from the current `Limits`. */
    readonly limits?: Json.Options["limits"]
  }
) => Effect.Effect<Verified, PayloadError.PayloadError, TrustedKeys> = (input, { as: { what }, limits, subject }) =>
  Effect.flatMap(Json.check(input, { what, limits }), (json) => verifyJson(json, what, subject))

/**
 * Requires signatures: under this layer every codec of the package verifies what it
 * decodes, and fails with `Untrusted` for what no trusted key has signed.
 *
 * **Details**
 *
 * - It holds for `Agent.decode`, `Plan.decode`, conversations, states and events of
 *   runs, records of `Session`, and codecs that
 *   `VersionedCodec` makes of your own types. Artefacts inside a signed artefact are
 *   signed with it, and not once more.
 *
 * **Gotchas**
 *
 * - Calls of a tool server, answers of models and foreign histories are no artefacts, and
 *   pass unsigned.
 * - An agent that is bound under this layer keeps it: it holds for the stores that its tools
 *   read, unless a run has another one around it. Name `kinds` to require signatures
 *   of agents alone.
 *
 * **Example** (A host that takes signed agents only)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Effect, Layer } from "effect"
 * import { Agent, AgentDefinition, ModelRegistry, ToolResolver } from "effect-emissary"
 * import { Signed } from "effect-emissary/payload"
 * import { ScriptedModel } from "effect-emissary/testing"
 *
 * const program = Effect.gen(function*() {
 *   const { privateKey, publicKey } = yield* Signed.generateKeys
 *   const agent = { schema_version: 2, model: "openai/gpt-5.2" }
 *   const envelope = yield* Signed.sign(agent, { as: AgentDefinition.codec, key: { keyId: "team-a", privateKey } })
 *
 *   const host = Layer.mergeAll(
 *     Layer.provide(
 *       Signed.required({ kinds: [AgentDefinition.codec] }),
 *       Signed.layerTrustedKeys([{ keyId: "team-a", publicKey }])
 *     ),
 *     ToolResolver.layerStubs(),
 *     ModelRegistry.layerContext
 *   )
 *   yield* Effect.provide(Agent.decode(envelope), host)
 *
 *   const error = yield* Effect.flip(Effect.provide(Agent.decode(agent), host))
 *   assert.match(error.message, /expected signed data, got data without a signature/)
 * })
 *
 * await Effect.runPromise(Effect.provide(program, ScriptedModel.layer([])))
 * ```
 *
 * @category layers
 * @since 0.1.0
 */
export const required = (
  options: {
    /**
     * The codecs that require a signature, also inside an artefact that requires none; default all. Records of
     * `Session` have codecs of their own, so only the default requires signatures of them.
     */
    readonly kinds?: ReadonlyArray<Artefact> | undefined
    /**
     * The key that signs what these codecs encode, so that stores can read what they wrote. Without it, codecs write
     * unsigned. A stored record is signed with its key in the store: moved to another key it is refused.
     */
    readonly key?: SigningKey | undefined
    /** Runs for each verified artefact, to log who signed it for example; nothing by default. */
    readonly onVerified?: ((verified: Verified) => Effect.Effect<void>) | undefined
  } = {}
): Layer.Layer<never, never, TrustedKeys> => {
  const { key, kinds, onVerified = () => Effect.void } = options
  return Layer.effect(
    gate.Gate,
    Effect.map(TrustedKeys, (trusted): gate.Gate => ({
      guards: (what) => kinds === undefined || kinds.some((kind) => kind.what === what),
      open: (json, what, subject) =>
        verifyJson(json, what, subject).pipe(
          Effect.tap(onVerified),
          Effect.map(({ payload }) => payload),
          Effect.provideService(TrustedKeys, trusted)
        ),
      seal: (json, what, subject) =>
        key === undefined ? Effect.succeed(json) : sign(json, { as: { what }, key, subject })
    }))
  )
}
