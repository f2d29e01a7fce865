import { assert, describe } from "@effect/vitest"
import * as documents from "#src/store/internal/documents.ts"
import { DateTime, Effect, Equal, Layer, Option, Redacted, Schema } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { TestClock } from "effect/testing"
import {
  Agent,
  AgentDefinition,
  Conversation,
  ModelRegistry,
  type PayloadError,
  Run,
  ToolResolver,
  VersionedStore
} from "effect-emissary"
import { Digest, Json, Signed, VersionedCodec } from "effect-emissary/payload"
import { Plan, PlanRun, Step } from "effect-emissary/plan"
import { Session } from "effect-emissary/session"
import { ScriptedModel } from "effect-emissary/testing"
import * as nodeCrypto from "node:crypto"
import { readFileSync } from "node:fs"
import { inspect } from "node:util"
import { call, toolResults } from "../agent/fixtures.ts"
import { failsFor } from "../outcomes.ts"
import { planOf } from "../plan/support.ts"
import { test } from "../test.ts"
import { jwk, key, known, publicKey } from "./known-key.ts"

const golden = (path: string): Schema.Json => JSON.parse(readFileSync(new URL(`../${path}`, import.meta.url), "utf8"))

const agentWire = golden("golden/wire/agent-v2-written.wire.json")
const conversationWire = golden("golden/wire/conversation-v1.wire.json")

const as = AgentDefinition.codec
const trusting = (options: Partial<Signed.TrustedKey> = {}) =>
  Signed.layerTrustedKeys([{ keyId: "team-a", publicKey, ...options }])

const verify = (input: unknown, keys = trusting()) => Effect.provide(Signed.verify(input, { as }), keys)

/** Why an envelope is refused. */
const whyNot = (input: unknown, keys = trusting()) =>
  Effect.map(failsFor("Untrusted", verify(input, keys)), ({ reason }) => reason.why)

const base64url = (text: string) => Buffer.from(text).toString("base64url")

/** Signs any header and canonical payload as a holder of the key could. */
const forge = (header: string, payload: Schema.Json) => {
  const encoded = base64url(header)
  const signature = nodeCrypto.sign(null, Buffer.from(`${encoded}.${base64url(JSON.stringify(payload))}`), known)
  return { payload, signature: `${encoded}..${signature.toString("base64url")}` }
}

describe("TRUST-9 a signature is a detached JWS over canonical JSON", () => {
  test("an independent implementation signs the same bytes", function* () {
    yield* TestClock.setTime(1_800_000_000_123)
    const envelope = yield* Signed.sign(agentWire, { as, key, expiresIn: "1 hour" })
    const [header = "", payload, signature = ""] = envelope.signature.split(".")
    assert.strictEqual(payload, "")
    assert.deepStrictEqual(JSON.parse(Buffer.from(header, "base64url").toString()), {
      alg: "Ed25519",
      typ: "effect-emissary+jws",
      kid: "team-a",
      kind: "Agent definition",
      iat: 1_800_000_000.123,
      exp: 1_800_003_600.123
    })
    const canonical = yield* Effect.fromResult(Digest.canonicalize(agentWire))
    const signed = `${header}.${Buffer.from(canonical).toString("base64url")}`
    assert.isTrue(
      nodeCrypto.verify(
        null,
        Buffer.from(signed),
        nodeCrypto.createPublicKey(known),
        Buffer.from(signature, "base64url")
      )
    )
  })

  test("a signature for one place is refused for another one", function* () {
    const envelope = yield* Signed.sign(agentWire, { as, key, subject: "shelf/1" })
    const keys = yield* Layer.build(trusting())
    const verifyAt = (given: Signed.Envelope, subject?: string) =>
      Effect.provide(Signed.verify(given, { as, subject }), keys)
    for (const subject of ["shelf/1", undefined])
      assert.strictEqual((yield* verifyAt(envelope, subject)).subject, "shelf/1")
    const anywhere = yield* Signed.sign(agentWire, { as, key })
    for (const refused of [verifyAt(envelope, "shelf/2"), verifyAt(anywhere, "shelf/1")])
      assert.strictEqual((yield* failsFor("Untrusted", refused)).reason.why, "subject")
  })

  test("white space and the order of keys do not matter, and both parts can be kept apart", function* () {
    const { payload, signature } = yield* Signed.sign({ schema_version: 2, model: "m", name: "n" }, { as, key })
    assert.deepStrictEqual(payload, { schema_version: 2, model: "m", name: "n" })
    const other = yield* Json.parse(` { "name" : "\\u006e",\n "model":"m", "schema_version": 2.0 } `)
    const verified = yield* verify({ payload: other, signature })
    assert.deepStrictEqual([verified.keyId, verified.kind], ["team-a", "Agent definition"])
    assert.deepStrictEqual(verified.payload, payload)
  })

  test("new keys sign and verify, and neither they nor errors show the private half", function* () {
    const made = yield* Signed.generateKeys
    const envelope = yield* Signed.sign(agentWire, { as, key: { keyId: "new", privateKey: made.privateKey } })
    const keys = Signed.layerTrustedKeys([{ keyId: "new", publicKey: made.publicKey }])
    assert.strictEqual((yield* verify(envelope, keys)).keyId, "new")
    assert.strictEqual(yield* whyNot({ ...envelope, payload: {} }, keys), "signature")

    const secret = "MC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06"
    const broken = {
      keyId: "k",
      privateKey: Redacted.make(`-----BEGIN PRIVATE KEY-----\n${secret}\n-----END PRIVATE KEY-----`)
    }
    const error = yield* Effect.flip(Signed.sign(agentWire, { as, key: broken }))
    assert.match(error.message, /signing key at \/privateKey: expected an Ed25519 key as PEM/)
    for (const text of [inspect(error, { depth: 9 }), JSON.stringify(error), inspect(made)]) {
      assert.notInclude(text, secret)
      assert.notInclude(text, "BEGIN PRIVATE KEY-----\nMC")
    }
  })
})

describe("TRUST-9 a changed byte is detected", () => {
  test("each bit of the envelope: it is refused, or it is the same JSON", function* () {
    const envelope = yield* Signed.sign({ schema_version: 2, model: "m", temperature: 0.5, é: ["ü", -0] }, { as, key })
    const bytes = new TextEncoder().encode(JSON.stringify(envelope))
    const keys = yield* Layer.build(trusting())
    const refusals = new Map<string, number>()
    let isSame = 0
    for (let at = 0; at < bytes.length; at++) {
      for (let bit = 0; bit < 8; bit++) {
        const changed = bytes.slice()
        changed[at] = (changed[at] ?? 0) ^ (1 << bit)
        const result = yield* Effect.result(
          Effect.provide(
            Effect.flatMap(Json.parse(changed), (json) =>
              Effect.map(Signed.verify(json, { as }), () => Equal.equals(json, JSON.parse(JSON.stringify(envelope))))
            ),
            keys
          )
        )
        if (result._tag === "Success") {
          assert.isTrue(result.success, `bit ${bit} of byte ${at} was changed, and accepted`)
          isSame++
        } else {
          const { reason } = result.failure
          const why = reason._tag === "Untrusted" ? reason.why : reason._tag
          refusals.set(why, (refusals.get(why) ?? 0) + 1)
        }
      }
    }
    assert.strictEqual(isSame, 0)
    for (const why of ["NotJson", "malformed", "signature", "unsigned"]) assert.isAbove(refusals.get(why) ?? 0, 0, why)
  })

  test("each value of the artefact that is removed, added or changed", function* () {
    const envelope = yield* Signed.sign(agentWire, { as, key })
    const keys = yield* Layer.build(trusting())
    let count = 0
    const check = (payload: unknown) =>
      Effect.gen(function* () {
        count++
        const error = yield* failsFor(
          "Untrusted",
          Effect.provide(Signed.verify({ ...envelope, payload }, { as }), keys)
        )
        assert.strictEqual(error.reason.why, "signature")
      })
    const visit = (value: Schema.Json, put: (value: unknown) => unknown): Effect.Effect<void, unknown> =>
      Effect.gen(function* () {
        for (const other of [null, "other", 1e9, [], {}]) if (!Equal.equals(other, value)) yield* check(put(other))
        if (Json.isObject(value)) {
          yield* check(put({ ...value, extra: 1 }))
          for (const [name, member] of Object.entries(value)) {
            const { [name]: _, ...rest } = value
            yield* check(put(rest))
            yield* visit(member, (changed) => put({ ...value, [name]: changed }))
          }
        } else if (Array.isArray(value)) {
          yield* check(put([...value, 1]))
          for (const [index, item] of value.entries()) yield* visit(item, (changed) => put(value.with(index, changed)))
        }
      })
    yield* visit(agentWire, (value) => value)
    assert.isAbove(count, 200)
  })
})

describe("TRUST-9 a signature is accepted for what, by whom and when it was made", () => {
  test("an artefact of another kind, an unsigned one, an unknown key, a key for others", function* () {
    const conversation = yield* Signed.sign(conversationWire, { as: Conversation.codec, key })
    assert.strictEqual(yield* whyNot(conversation), "kind")
    assert.strictEqual(yield* whyNot(agentWire), "unsigned")
    assert.strictEqual(yield* whyNot({ payload: agentWire }), "unsigned")
    const envelope = yield* Signed.sign(agentWire, { as, key })
    assert.strictEqual(yield* whyNot({ ...envelope, note: 1 }), "unsigned")
    assert.strictEqual(yield* whyNot(envelope, trusting({ keyId: "team-b" })), "unknownKey")
    assert.strictEqual(yield* whyNot(envelope, trusting({ kinds: [Plan.codec] })), "keyKind")
    const { publicKey: another } = yield* Signed.generateKeys
    assert.strictEqual(yield* whyNot(envelope, trusting({ publicKey: another })), "signature")
  })

  test("rotation and revocation", function* () {
    const at = (text: string) => DateTime.makeUnsafe(text)
    yield* TestClock.setTime(DateTime.toEpochMillis(at("2026-06-01T00:00:00Z")))
    const envelope = yield* Signed.sign(agentWire, { as, key })
    yield* TestClock.adjust("365 days")
    yield* verify(envelope)
    yield* verify(envelope, trusting({ from: at("2026-06-01T00:00:00Z"), until: at("2026-06-01T00:00:01Z") }))
    assert.strictEqual(yield* whyNot(envelope, trusting({ until: at("2026-06-01T00:00:00Z") })), "keyTime")
    assert.strictEqual(yield* whyNot(envelope, trusting({ from: at("2026-06-01T00:00:01Z") })), "keyTime")
    assert.strictEqual(yield* whyNot(envelope, trusting({ revoked: true })), "revoked")
    const twice = Signed.layerTrustedKeys([
      { keyId: "a", publicKey },
      { keyId: "a", publicKey }
    ])
    const error = yield* Effect.flip(Layer.build(twice))
    assert.strictEqual(
      error.message,
      "trusted keys at /1/keyId: expected an id of its own, got the id of an earlier key"
    )
    const unreadable = yield* Effect.flip(Layer.build(trusting({ publicKey: "ssh-ed25519 AAAA" })))
    assert.match(unreadable.message, /trusted keys at \/0\/publicKey: expected an Ed25519 key as PEM/)
  })

  test("expiry and the future, by the clock", function* () {
    yield* TestClock.setTime(1_000_000_000_000)
    const envelope = yield* Signed.sign(agentWire, { as, key, expiresIn: "1 minute" })
    const verified = yield* verify(envelope)
    assert.strictEqual(verified.expiresAt?.epochMilliseconds, 1_000_000_060_000)
    yield* TestClock.adjust("59 seconds")
    yield* verify(envelope)
    yield* TestClock.adjust("1 second")
    assert.strictEqual(yield* whyNot(envelope), "expired")
    yield* TestClock.setTime(1_000_000_000_000 - 60_000)
    yield* verify(envelope)
    yield* TestClock.setTime(1_000_000_000_000 - 60_001)
    assert.strictEqual(yield* whyNot(envelope), "notYetValid")
  })

  test("other algorithms, keys of the header twice, critical extensions, spare bits", function* () {
    const payload = { model: "m", schema_version: 2 }
    const header = { alg: "Ed25519", typ: "effect-emissary+jws", kid: "team-a", kind: as.what, iat: 0 }
    const text = JSON.stringify(header)
    yield* verify(forge(text, payload))

    const bad: ReadonlyArray<string> = [
      ...["none", "HS256", "EdDSA", "ed25519", ""].map((alg) => JSON.stringify({ ...header, alg })),
      JSON.stringify({ ...header, typ: "JWT" }),
      JSON.stringify({ ...header, crit: ["b64"], b64: false }),
      JSON.stringify({ ...header, jwk }),
      JSON.stringify({ ...header, iat: "0" }),
      JSON.stringify({ ...header, iat: 1e300 }),
      JSON.stringify({ ...header, exp: 1e300 }),
      text.replace(`"kid":`, `"kid":"team-b","kid":`),
      `\uFEFF${text}`,
      "[]",
      "{"
    ]
    for (const forged of bad) assert.strictEqual(yield* whyNot(forge(forged, payload)), "malformed", forged)

    const { signature } = forge(text, payload)
    const [encoded = "", , bytes = ""] = signature.split(".")
    const last = bytes.at(-1) ?? ""
    const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    const spare = alphabet[alphabet.indexOf(last) ^ 1] ?? ""
    for (const changed of [
      "",
      "..",
      bytes,
      `${encoded}..`,
      `${encoded}..${bytes}=`,
      `${encoded}..${bytes.slice(0, -1)}${spare}`,
      `${encoded}..${bytes}.`,
      `${encoded}.e30.${bytes}`
    ]) {
      const why = yield* whyNot({ payload, signature: changed })
      assert.strictEqual(why, changed === `${encoded}..` ? "signature" : "malformed", changed)
    }

    // S + L is the same signature to careless implementations
    const raw = Buffer.from(bytes, "base64url")
    const order = 2n ** 252n + 27742317777372353535851937790883648493n
    const s = BigInt(`0x${Buffer.from(raw.subarray(32).toReversed()).toString("hex")}`) + order
    const larger = Buffer.from(s.toString(16).padStart(64, "0"), "hex").reverse()
    const malleable = `${encoded}..${Buffer.concat([raw.subarray(0, 32), larger]).toString("base64url")}`
    assert.strictEqual(yield* whyNot({ payload, signature: malleable }), "signature")
  })
})

describe("TRUST-9 a host requires signatures", () => {
  const binding = Layer.mergeAll(ToolResolver.layerStubs(), ModelRegistry.layerContext).pipe(
    Layer.provideMerge(ScriptedModel.layer([]))
  )
  const requiring = (options?: Parameters<typeof Signed.required>[0]) =>
    Layer.provide(Signed.required(options), trusting())

  test("every codec refuses unsigned data, and reads signed data", requiring(), function* () {
    const check = <A>(codec: VersionedCodec.VersionedCodec<A>, wire: Schema.Json) =>
      Effect.gen(function* () {
        const error = yield* failsFor("Untrusted", codec.decode(wire))
        assert.strictEqual(error.reason.why, "unsigned", codec.what)
        const envelope = yield* Signed.sign(wire, { as: codec, key })
        yield* codec.decode(envelope)
        yield* codec.decodeJson(JSON.stringify(envelope, null, 2))
        const confused = yield* Signed.sign(wire, { as: { what: "another" }, key })
        assert.strictEqual((yield* failsFor("Untrusted", codec.decode(confused))).reason.why, "kind")
      })
    yield* check(AgentDefinition.codec, agentWire)
    yield* check(Conversation.codec, conversationWire)
    yield* check(Conversation.repairingCodec, conversationWire)
    yield* check(Plan.codec, golden("plan/golden-wire/plan-v3-everything-written.wire.json"))
    yield* check(Run.stateCodec, golden("agent/golden/run-state-waiting-v1.json"))
    yield* check(Run.eventsCodec, golden("agent/golden/run-events-waiting-v1.json"))
    yield* check(PlanRun.stateCodec, golden("plan/golden-run/plan-run-state-waiting-v1.json"))
    yield* check(PlanRun.eventsCodec, golden("plan/golden-run/plan-run-events-waiting-v1.json"))
  })

  test("Agent.decode and Plan.decode require them, and the host sees who signed", binding, function* () {
    const seen: Array<string> = []
    const host = requiring({
      kinds: [AgentDefinition.codec, Plan.codec],
      onVerified: ({ keyId, kind }) => Effect.sync(() => seen.push(`${kind} by ${keyId}`))
    })
    const plan = golden("plan/golden-wire/plan-v3-least-read.wire.json")
    yield* Effect.gen(function* () {
      const error = yield* failsFor("Untrusted", Agent.decode(agentWire))
      assert.strictEqual(
        error.message,
        "Agent definition at the root: expected signed data, got data without a signature. Sign it with Signed.sign"
      )
      const wire = { schema_version: 2, model: "openai/gpt-5.2" }
      yield* Agent.decode(yield* Signed.sign(wire, { as, key }))
      assert.strictEqual((yield* Effect.flip(Plan.decode(plan)))._tag, "PayloadError")
      yield* Plan.decode(JSON.stringify(yield* Signed.sign(plan, { as: Plan.codec, key })))
      yield* Conversation.codec.decode(conversationWire)
    }).pipe(Effect.provide(host))
    assert.deepStrictEqual(seen, ["Agent definition by team-a", "Plan by team-a"])
  })

  const Read = Tool.make("read", { success: Schema.String })
  const reading = Toolkit.make(Read)
  const reads = reading.toLayer({
    read: () =>
      Effect.match(Conversation.codec.decode(conversationWire), {
        onFailure: ({ reason }) => reason._tag,
        onSuccess: () => "read"
      })
  })

  test("an agent keeps the requirement that it was bound under, and a run can bring another one", function* () {
    const definition = yield* Agent.definition(Agent.make("reader", { toolkit: reading }))
    const wire = yield* AgentDefinition.codec.encode(definition)
    const envelope = yield* Signed.sign(wire, { as, key })
    const answer = (bound: Layer.Layer<never, PayloadError.PayloadError>, around = Layer.empty as typeof bound) =>
      Effect.gen(function* () {
        const agent = yield* Effect.provide(Agent.decode(envelope), bound)
        const { conversation } = yield* Effect.provide(agent.run("Go"), around)
        return toolResults(conversation)
      }).pipe(
        Effect.provide(
          Layer.mergeAll(
            ToolResolver.layerToolkit(reading).pipe(Layer.provide(reads)),
            ModelRegistry.layerContext
          ).pipe(Layer.provideMerge(ScriptedModel.layer([{ toolCalls: [call("c", "read", {})] }, { text: "done" }])))
        )
      )
    const only = requiring({ kinds: [as] })
    assert.deepStrictEqual(yield* answer(requiring()), ["Untrusted"])
    assert.deepStrictEqual(yield* answer(only), ["read"])
    assert.deepStrictEqual(yield* answer(only, requiring()), ["Untrusted"])
    assert.deepStrictEqual(yield* answer(requiring(), only), ["read"])
  })

  const documentsOf = (port: VersionedStore.Service) => {
    const { encode, get, writeOnce } = documents.of(port)
    const setOnce = <A>(codec: VersionedCodec.VersionedCodec<A>, key: string, value: A) =>
      Effect.flatMap(encode(codec, key, value), (json) => writeOnce(key, json))
    return { get, setOnce }
  }

  test("TRUST-9 a signed record under another key is refused", VersionedStore.layerMemory, function* () {
    const note = VersionedCodec.single({ what: "note", value: Schema.Struct({ title: Schema.String }) })
    const port = yield* VersionedStore.VersionedStore
    const { get, setOnce } = documentsOf(port)
    yield* Effect.gen(function* () {
      for (const tenant of ["a", "b"]) yield* setOnce(note, tenant, { title: `of ${tenant}` })
      const [first, second] = yield* Effect.forEach(["a", "b"], (key) => Effect.map(port.get(key), Option.getOrThrow))
      assert(first !== undefined && second !== undefined)
      yield* port.compareAndSet("b", Option.some(second.version), first.value)
      const error = yield* Effect.flip(get(note, "b"))
      assert.match(documents.renderReason(error), /expected a signature for this place/)
      assert.deepStrictEqual(Option.getOrThrow(yield* get(note, "a")).value, { title: "of a" })
    }).pipe(Effect.provide(requiring({ key })))
  })

  test("a record that is written once may be written again later", VersionedStore.layerMemory, function* () {
    const note = VersionedCodec.single({ what: "note", value: Schema.Struct({ title: Schema.String }) })
    const { get, setOnce } = documentsOf(yield* VersionedStore.VersionedStore)
    yield* Effect.gen(function* () {
      yield* setOnce(note, "n", { title: "Milk" })
      yield* TestClock.adjust("1 hour")
      yield* setOnce(note, "n", { title: "Milk" })
      assert.strictEqual((yield* Effect.flip(setOnce(note, "n", { title: "Bread" })))._tag, "Damaged")
      assert.deepStrictEqual(Option.getOrThrow(yield* get(note, "n")).value, { title: "Milk" })
    }).pipe(Effect.provide(requiring({ key })))
  })

  test("sessions continue under signatures, and are refused without", VersionedStore.layerMemory, function* () {
    const plan = yield* planOf([Step.make("a", { target: ({ task }) => Effect.succeed(task), writes: "w" })])
    const job = { id: "k", input: "go" }
    const signing = Layer.provideMerge(Session.layer([plan]), requiring({ key }))
    yield* Effect.provide(Session.run(plan, job), signing)
    yield* Effect.gen(function* () {
      const sessions = yield* Session.Session
      assert.strictEqual((yield* Session.run(plan, { ...job, ifExists: "resume" })).outcome, "Completed")
      assert.strictEqual(Option.getOrThrow(yield* sessions.read("w")).value, "go")
    }).pipe(Effect.provide(signing))
    const refusal = Effect.fnUntraced(function* (expected: RegExp) {
      const sessions = yield* Session.Session
      const reads = [Effect.asVoid(sessions.state("k")), Effect.asVoid(sessions.read("w"))]
      for (const read of reads) assert.match((yield* Effect.flip(read)).message, expected)
    })
    yield* Effect.provide(refusal(/got a signed envelope. Decode it under Signed.required/), Session.layer([plan]))
    const port = yield* VersionedStore.VersionedStore
    for (const stored of ["session/head/k", "session/writes/w"]) {
      const { value, version } = Option.getOrThrow(yield* port.get(stored))
      assert(Json.isObject(value))
      yield* port.compareAndSet(stored, Option.some(version), value["payload"] ?? null)
    }
    yield* Effect.provide(refusal(/expected signed data/), signing)
  })

  test("a codec of a program's own type signs and requires, too", requiring({ key }), function* () {
    const note = VersionedCodec.single({ what: "note", value: Schema.Struct({ title: Schema.String }) })
    const json = yield* note.encode({ title: "Milk" })
    assert.hasAllKeys(json, ["payload", "signature"])
    assert.deepStrictEqual(yield* note.decode(json), { title: "Milk" })
    const outer = VersionedCodec.single({ what: "notes", value: Schema.Array(note.schema), member: "notes" })
    const both = yield* outer.encode([{ title: "Milk" }, { title: "Bread" }])
    assert.deepStrictEqual(both["payload"], {
      version: 1,
      notes: [
        { version: 1, title: "Milk" },
        { version: 1, title: "Bread" }
      ]
    })
    assert.strictEqual((yield* outer.decode(both)).length, 2)
  })

  test("TRUST-9 an artefact inside one that requires no signature requires its own", function* () {
    const job = VersionedCodec.single({
      what: "job",
      value: Schema.Struct({ agent: AgentDefinition.codec.schema })
    })
    const host = requiring({ key, kinds: [AgentDefinition.codec] })
    const agent = yield* AgentDefinition.make({ model: "a/b" })
    const plain = yield* job.encode({ agent })
    const error = yield* Effect.flip(Effect.provide(job.decode(plain), host))
    assert.match(error.message, /^job at \/agent: .*expected signed data/)
    const sealed = yield* Effect.provide(job.encode({ agent }), host)
    assert.hasAllKeys(sealed["agent"], ["payload", "signature"])
    assert.deepStrictEqual(yield* Effect.provide(job.decode(sealed), host), { agent })
  })

  test("an older artefact with its signature is accepted again: this is no protection against replay", function* () {
    const older = yield* Signed.sign({ schema_version: 2, model: "a" }, { as, key })
    yield* Signed.sign({ schema_version: 2, model: "b" }, { as, key })
    yield* verify(older)
  })
})
