import { assert, describe, expect, it } from "@effect/vitest"
import { Effect, Redacted, Result, Schema } from "effect"
import { PayloadError } from "effect-emissary"
import { Json, VersionedCodec } from "effect-emissary/payload"
import { pluck } from "../pluck.ts"
import { test } from "../test.ts"

// A toy with three released versions. Version 1 has tool names, version 2 has
// tools with descriptions, version 3 adds options and tags.

const Tool = Schema.Struct({ name: Schema.String, description: Schema.String, tags: Schema.Array(Schema.String) })
const Toy = Schema.Struct({
  name: Schema.String,
  tools: Schema.Array(Tool),
  options: Schema.Record(Schema.String, Schema.Json)
})
type Toy = typeof Toy.Type

const V3 = Schema.Struct({ version: Schema.Literal(3), ...Toy.fields })
const v3 = VersionedCodec.arm({
  version: 3,
  wire: V3,
  toCurrent: ({ version: _, ...toy }) => Effect.succeed(toy),
  fromCurrent: (toy: Toy) => VersionedCodec.lossless({ version: 3 as const, ...toy })
})

const losses = (toy: Toy, version: 1 | 2) => [
  ...(Object.keys(toy.options).length > 0 ? [{ path: "/options", what: "options" }] : []),
  ...toy.tools.flatMap((tool, i) => [
    ...(tool.tags.length > 0 ? [{ path: `/tools/${i}/tags`, what: "tags" }] : []),
    ...(version === 1 && tool.description !== "" ? [{ path: `/tools/${i}/description`, what: "description" }] : [])
  ])
]

const V2 = Schema.Struct({
  version: Schema.Literal(2),
  name: Schema.String,
  tools: Schema.Array(Schema.Struct({ name: Schema.String, description: Schema.String }))
})
const fromV2 = ({ name, tools }: Omit<typeof V2.Type, "version">): Toy => ({
  name,
  tools: tools.map((tool) => ({ ...tool, tags: [] })),
  options: {}
})
const v2 = VersionedCodec.arm({
  version: 2,
  wire: V2,
  toCurrent: (wire) => Effect.succeed(fromV2(wire)),
  fromCurrent: (toy: Toy) =>
    VersionedCodec.lossy(
      { version: 2 as const, name: toy.name, tools: toy.tools.map(({ name, description }) => ({ name, description })) },
      losses(toy, 2)
    )
})

const V1 = Schema.Struct({ version: Schema.Literal(1), name: Schema.String, tools: Schema.Array(Schema.String) })
const v1 = VersionedCodec.arm({
  version: 1,
  wire: V1,
  onExcessProperty: "ignore",
  toCurrent: (wire) =>
    new Set(wire.tools).size < wire.tools.length
      ? Effect.fail(PayloadError.invalid([{ path: "/tools", expected: "different tools", found: "array" }]))
      : Effect.succeed(fromV2({ name: wire.name, tools: wire.tools.map((name) => ({ name, description: "" })) })),
  fromCurrent: (toy: Toy) =>
    toy.name === "nameless"
      ? Effect.fail(PayloadError.invalid([{ path: "/name", expected: "a name", found: "string" }]))
      : VersionedCodec.lossy(
          { version: 1 as const, name: toy.name, tools: toy.tools.map((tool) => tool.name) },
          losses(toy, 1)
        )
})

const codec = VersionedCodec.make({
  what: "toy",
  field: "version",
  type: Toy,
  arms: [v2, v1, v3],
  data: ["/options/data"]
})

const full: Toy = {
  name: "a",
  tools: [
    { name: "t", description: "does t", tags: ["x"] },
    { name: "u", description: "", tags: [] }
  ],
  options: { temperature: 1 }
}

const json = (value: unknown) => JSON.stringify(value)
const reasonOf = <A, E>(effect: Effect.Effect<A, PayloadError.PayloadError | E>) =>
  Effect.map(Effect.flip(effect), (error) => {
    assert(error instanceof PayloadError.PayloadError)
    return error.reason
  })

describe("PAY-B reading", () => {
  test("PAY-B every version is read through the chain", function* () {
    assert.deepStrictEqual(yield* codec.decode({ version: 1, name: "a", tools: ["t"], unknown: true }), {
      name: "a",
      tools: [{ name: "t", description: "", tags: [] }],
      options: {}
    })
    assert.deepStrictEqual(yield* codec.decode({ version: 2, name: "a", tools: [{ name: "t", description: "d" }] }), {
      name: "a",
      tools: [{ name: "t", description: "d", tags: [] }],
      options: {}
    })
    assert.deepStrictEqual(yield* codec.decode({ version: 3, ...full }), full)
    assert.deepStrictEqual([codec.versions, codec.current], [[1, 2, 3], 3])
  })

  const tags: ReadonlyArray<
    readonly [name: string, json: unknown, found: string | number | boolean | null, mention: string]
  > = [
    ["missing", { name: "a" }, null, "got nothing"],
    ["null", { version: null }, null, "got null"],
    ["newer", { version: 4 }, 4, "got 4"],
    ["older than all", { version: 0 }, 0, "got 0"],
    ["no integer", { version: 2.5 }, 2.5, "got 2.5"],
    ["text", { version: "3" }, "3", `got "3"`],
    ["long text", { version: "3".repeat(500) }, `${"3".repeat(40)}…`, "3…"],
    ["a boolean", { version: true }, true, "got true"],
    ["an array", { version: [3] }, null, "got array"],
    ["an object", { version: { a: 3 } }, null, "got object"]
  ]
  for (const [name, input, found, mention] of tags) {
    test(`PAY-B L3 UnsupportedVersion: the tag is ${name}`, function* () {
      for (const effect of [codec.decode(input), codec.decodeJson(json(input))]) {
        const error = yield* Effect.flip(effect)
        assert.deepInclude(error.reason, { _tag: "UnsupportedVersion", field: "version", found, supported: [1, 2, 3] })
        for (const part of ["toy", "version", mention, "1, 2, 3"]) assert.include(error.message, part)
      }
    })
  }

  test("PAY-B L2 an inherited field is no tag", function* () {
    const odd = VersionedCodec.make({ what: "odd", field: "constructor", type: Toy, arms: [v3] })
    assert.deepInclude(yield* reasonOf(odd.decode({})), { _tag: "UnsupportedVersion", kind: "nothing" })
  })

  test("PAY-B what is no object is Invalid at the root", function* () {
    for (const input of [[], null, "x", 3]) {
      const reason = yield* reasonOf(codec.decode(input))
      assert(reason._tag === "Invalid")
      assert.strictEqual(reason.issues[0]?.path, "")
    }
  })

  it("PAY-B every problem names the artefact", () => {
    const numbers = { ...full, options: { a: [1] } }
    const messages = Effect.runSync(
      Effect.forEach(
        [
          codec.decode([]),
          codec.decode({ a: undefined }),
          codec.decode({ version: 3 }),
          codec.decode({ payload: {}, signature: "x" }),
          codec.decode({ payload: {}, signature: 1 }),
          codec.decode({ version: 4, signature: "x" }),
          codec.decodeJson("{"),
          codec.decodeJson(`{"version":2,"name":"a"}`),
          codec.encodeJson(full, { limits: { maxBytes: 145 } }),
          codec.encodeJson(numbers, { indent: 10, limits: { maxBytes: 300 } }),
          codec.encodeJson(numbers, { version: 1 })
        ],
        (effect) => Effect.map(Effect.flip<unknown, Error, never>(effect), ({ message }) => message)
      )
    )
    expect(messages).toMatchInlineSnapshot(`
      [
        "toy at the root: expected an object with the field "version", got array",
        "toy at /a: expected a JSON value (leave the key out instead), got undefined",
        "toy at /name: expected a value, got nothing; at /tools: expected a value, got nothing; at /options: expected a value, got nothing",
        "toy at /version: expected a supported version, one of 1, 2, 3, got a signed envelope. Decode it under Signed.required, or decode the payload that Signed.verify returns",
        "toy at /version: expected a supported version, one of 1, 2, 3, got nothing. Write one of 1, 2, 3 there, as a number",
        "toy at /version: expected a supported version, one of 1, 2, 3, got 4. Use a release that knows it, or write an older version",
        "toy at the root: expected a key in double quotes or "}", got the end of the text at offset 1. Send one JSON text",
        "toy at /tools: expected a value, got nothing",
        "toy at the root: expected at most 145 bytes, got at least 151. Send less, or raise maxBytes in the limits of this call",
        "toy at the root: expected at most 300 bytes, got at least 636. Send less, or raise maxBytes in the limits of this call",
        "toy: version 1 cannot hold options (at /options); tags (at /tools/0/tags); description (at /tools/0/description). List what may be lost in allowLoss, or write a newer version",
      ]
    `)
  })

  test("PAY-B a document without the field has the version that the codec states for it, or none", function* () {
    const old = VersionedCodec.make({ what: "toy", field: "version", type: Toy, arms: [v3, v1], unversioned: 1 })
    assert.deepStrictEqual([old.versions, old.current], [[1, 3], 3])
    const toy = { name: "a", tools: [{ name: "t", description: "", tags: [] }], options: {} }
    assert.deepStrictEqual(yield* old.decode({ name: "a", tools: ["t"] }), toy)
    assert.deepStrictEqual(yield* old.decode({ version: 3, ...full }), full)
    assert.deepInclude(yield* reasonOf(old.decode({ version: undefined, name: "a" })), { _tag: "Invalid" })
    assert.deepInclude(yield* reasonOf(old.decode({ version: null, name: "a" })), { found: null, kind: "null" })
  })

  test("PAY-B the tag decides whose fields the errors name", function* () {
    const two = yield* reasonOf(codec.decode({ version: 2, name: 1, tools: [{ name: "t" }], options: {} }))
    assert(two._tag === "Invalid")
    assert.deepStrictEqual(pluck(two.issues, "path"), ["/options", "/name", "/tools/0/description"])
    const one = yield* reasonOf(codec.decode({ version: 1, name: "a", tools: ["t", "t"] }))
    assert(one._tag === "Invalid")
    assert.strictEqual(one.issues[0]?.path, "/tools")
  })

  test("PAY-A L2 limits and key rules come before the tag", function* () {
    assert.strictEqual((yield* reasonOf(codec.decodeJson(`{"version":9,"__proto__":1}`)))._tag, "ForbiddenKey")
    assert.strictEqual((yield* reasonOf(codec.decodeJson("{}", { limits: { maxBytes: 1 } })))._tag, "TooLarge")
    assert.strictEqual((yield* reasonOf(codec.decode({ a: [] }, { limits: { maxDepth: 1 } })))._tag, "TooDeep")
    assert.strictEqual((yield* reasonOf(codec.decodeJson("{")))._tag, "NotJson")
  })
})

describe("PAY-B writing", () => {
  const lossyOf = (effect: Effect.Effect<unknown, PayloadError.PayloadError | PayloadError.LossyEncoding>) =>
    Effect.map(Effect.flip(effect), (error) => {
      assert(error._tag === "LossyEncoding")
      return error
    })

  test("PAY-B the newest version unless asked for another one", function* () {
    assert.deepStrictEqual(yield* codec.encode(full), { version: 3, ...full })
    const plain = { name: "a", tools: [{ name: "t", description: "", tags: [] }], options: {} }
    assert.deepStrictEqual(yield* codec.encode(plain, { version: 1 }), { version: 1, name: "a", tools: ["t"] })
    assert.strictEqual(
      yield* codec.encodeJson(plain, { version: 1, indent: 1 }),
      JSON.stringify({ version: 1, name: "a", tools: ["t"] }, undefined, 1)
    )
    assert.deepInclude(yield* reasonOf(codec.encode(full, { version: 7 })), {
      _tag: "UnsupportedVersion",
      found: 7,
      supported: [1, 2, 3]
    })
    assert.deepInclude(yield* reasonOf(codec.encode(full, { version: Number.NaN })), { found: null })
  })

  test("PAY-B LossyEncoding names every loss", function* () {
    const error = yield* lossyOf(codec.encode(full, { version: 1 }))
    assert.deepStrictEqual(error.losses, [
      { path: "/options", what: "options" },
      { path: "/tools/0/tags", what: "tags" },
      { path: "/tools/0/description", what: "description" }
    ])
    assert.strictEqual(
      error.message,
      "toy: version 1 cannot hold options (at /options); tags (at /tools/0/tags); description (at /tools/0/description). List what may be lost in allowLoss, or write a newer version"
    )
    assert.strictEqual(error.version, 1)
    const lossy = VersionedCodec.arm({
      ...v3,
      wire: V3,
      toCurrent: ({ version: _, ...toy }) => Effect.succeed(toy),
      fromCurrent: (toy: Toy) => VersionedCodec.lossy({ version: 3 as const, ...toy }, [{ path: "", what: "it" }])
    })
    const newest = VersionedCodec.make({ what: "toy", field: "version", type: Toy, arms: [lossy] })
    assert.deepStrictEqual((yield* lossyOf(newest.encode(full))).losses, [{ path: "", what: "it" }])
  })

  test("PAY-B what cannot be written is refused with the name of the artefact and the place", function* () {
    const wire = Schema.Struct({ version: Schema.Literal(1), n: Schema.Int })
    const arm = VersionedCodec.arm({
      version: 1,
      wire,
      toCurrent: ({ n }) => Effect.succeed({ n }),
      fromCurrent: ({ n }: { readonly n: number }) => VersionedCodec.lossless({ version: 1 as const, n })
    })
    const numbers = VersionedCodec.make({
      what: "number",
      field: "version",
      type: Schema.Struct({ n: Schema.Finite }),
      arms: [arm]
    })
    const message = <A>(effect: Effect.Effect<A, Error>) => Effect.map(Effect.flip(effect), (error) => error.message)
    assert.strictEqual(yield* message(numbers.encode({ n: 0.5 })), "number at /n: expected an integer, got number")
    assert.strictEqual(
      yield* message(codec.encode({ ...full, options: { password: "hunter2" } })),
      'toy at /options/password: expected no secret, got the secret key "password". Refer to the secret by name, and provide it where it is used'
    )
    assert.strictEqual(
      yield* message(codec.encode(full, { limits: { maxDepth: 1 } })),
      "toy at /tools: expected at most 1 levels of arrays and objects, got more. Send flatter data, or raise maxDepth in the limits of this call"
    )
  })

  test("PAY-B allowLoss allows exactly what it lists", function* () {
    const left = (allowLoss: ReadonlyArray<string | PayloadError.Loss>) =>
      Effect.map(lossyOf(codec.encode(full, { version: 1, allowLoss })), (error) =>
        error.losses.map((loss) => loss.path)
      )
    assert.deepStrictEqual(yield* left(["/options"]), ["/tools/0/tags", "/tools/0/description"])
    assert.deepStrictEqual(yield* left(["/options", "/tools/*/tags"]), ["/tools/0/description"])
    assert.deepStrictEqual(yield* left([{ path: "/options", what: "options" }, "/**/tags"]), ["/tools/0/description"])
    // Not a prefix, not another word for it, not another place, not the root.
    const nothing = [
      { path: "/other", what: "options" },
      "/tools",
      "/tools/0",
      "/tools/1/tags",
      "",
      { path: "/options", what: "all options" }
    ]
    assert.strictEqual((yield* left(nothing)).length, 3)
    const error = yield* lossyOf(codec.encode(full, { version: 1 }))
    const wire = yield* codec.encode(full, { version: 1, allowLoss: [...error.losses, "/unneeded"] })
    assert.deepStrictEqual(wire, { version: 1, name: "a", tools: ["t", "u"] })
  })

  test("PAY-B an arm may refuse what makes no sense in its version", function* () {
    const reason = yield* reasonOf(codec.encode({ ...full, name: "nameless" }, { version: 1 }))
    assert(reason._tag === "Invalid")
    assert.strictEqual(reason.issues[0]?.path, "/name")
  })

  test("L8 secret keys are refused on the way out, except where keys are data, and read without complaint", function* () {
    const toy = { ...full, options: { headers: [{ "X-Api-Key": "hunter2" }] } }
    const error = yield* Effect.flip(codec.encode(toy))
    assert(error._tag === "PayloadError")
    assert.deepInclude(error.reason, { _tag: "Secret", path: "/options/headers/0/X-Api-Key", key: "X-Api-Key" })
    assert.notInclude(json(error) + error.message, "hunter2")
    yield* codec.encode({ ...full, options: { data: { password: "name of a parameter" }, max_tokens: 1 } })
    assert.deepStrictEqual(yield* codec.decode({ version: 3, ...toy }), toy)
  })

  test("L8 Redacted values are refused even where a schema would unwrap them", function* () {
    const Account = Schema.Struct({ pin: Schema.RedactedFromValue(Schema.String) })
    const arm = VersionedCodec.arm({
      version: 1,
      wire: Schema.Struct({ version: Schema.Literal(1), ...Account.fields }),
      toCurrent: ({ pin }) => Effect.succeed({ pin }),
      fromCurrent: ({ pin }: typeof Account.Type) => VersionedCodec.lossless({ version: 1 as const, pin })
    })
    const accounts = VersionedCodec.make({ what: "account", field: "version", type: Account, arms: [arm] })
    const error = yield* Effect.flip(accounts.encodeJson({ pin: Redacted.make("hunter2") }))
    assert(error._tag === "PayloadError")
    assert.deepInclude(error.reason, { _tag: "Secret", path: "/pin", kind: "redacted" })
    assert.notInclude(json(error) + error.message, "hunter2")
  })

  test("L8 Redacted values are refused even where an arm unwraps them", function* () {
    const Account = Schema.Struct({ pin: Schema.Redacted(Schema.String) })
    const arm = VersionedCodec.arm({
      version: 1,
      wire: Schema.Struct({ version: Schema.Literal(1), pin: Schema.String }),
      toCurrent: ({ pin }) => Effect.succeed({ pin: Redacted.make(pin) }),
      fromCurrent: ({ pin }: typeof Account.Type) =>
        VersionedCodec.lossless({ version: 1 as const, pin: Redacted.value(pin) })
    })
    const accounts = VersionedCodec.make({ what: "account", field: "version", type: Account, arms: [arm] })
    const reason = yield* reasonOf(accounts.encode({ pin: Redacted.make("hunter2") }))
    assert.deepInclude(reason, { _tag: "Secret", path: "/pin", kind: "redacted" })
  })

  test("L8 Redacted values are refused even where an arm makes them", function* () {
    const arm = VersionedCodec.arm({
      version: 1,
      wire: Schema.Struct({ version: Schema.Literal(1), pin: Schema.RedactedFromValue(Schema.String) }),
      toCurrent: ({ pin }) => Effect.succeed({ pin: Redacted.value(pin) }),
      fromCurrent: ({ pin }: { readonly pin: string }) =>
        VersionedCodec.lossless({ version: 1 as const, pin: Redacted.make(pin) })
    })
    const type = Schema.Struct({ pin: Schema.String })
    const accounts = VersionedCodec.make({ what: "account", field: "version", type, arms: [arm] })
    const reason = yield* reasonOf(accounts.encode({ pin: "hunter2" }))
    assert.deepInclude(reason, { _tag: "Secret", path: "/pin", kind: "redacted" })
  })

  test("L4 arms that contradict each other are bugs", function* () {
    const twice = VersionedCodec.make({ what: "toy", field: "version", type: Toy, arms: [v3, v3] })
    const none = VersionedCodec.make({ what: "toy", field: "version", type: Toy, arms: [] })
    const wrong = VersionedCodec.make({ what: "toy", field: "v", type: Toy, arms: [v3] })
    for (const [effect, message] of [
      [twice.encode(full), "toy: expected arms of different versions, found 2 arms"],
      [none.decode({ version: 1 }), "toy: expected arms of different versions, found 0 arms"],
      [wrong.encode(full), "toy: the arm of version 3 does not write its v"]
    ] as const) {
      const exit = yield* Effect.exit(effect as Effect.Effect<unknown, unknown>)
      assert(exit._tag === "Failure")
      assert.deepStrictEqual(
        exit.cause.reasons.map((reason) => reason._tag === "Die" && String(reason.defect)),
        [`Error: ${message}`]
      )
    }
  })
})

describe("PAY-B laws", () => {
  it.prop("L3 decode(encode(x)) is x, as value and as text", [Toy], ([toy]) => {
    const wire = Effect.runSync(Effect.result(codec.encode(toy)))
    if (Result.isFailure(wire)) return assertRefusedKey(wire.failure)
    assert.strictEqual(json(Effect.runSync(codec.decode(wire.success))), json(toy))
    assert.strictEqual(json(Effect.runSync(codec.decodeJson(Effect.runSync(codec.encodeJson(toy))))), json(toy))
  })

  it.prop("L3 an older version loses nothing, or names what it loses", [Toy], ([toy]) => {
    for (const version of [1, 2]) {
      const wire = Effect.runSync(Effect.result(codec.encode(toy, { version })))
      if (Result.isSuccess(wire)) {
        const back = Effect.runSync(Effect.result(codec.decode(wire.success)))
        if (Result.isSuccess(back)) assert.strictEqual(json(back.success), json(toy))
        continue
      }
      if (wire.failure._tag !== "LossyEncoding") return assertRefusedKey(wire.failure)
      const allowLoss = wire.failure.losses
      const less = Effect.runSync(codec.encode(toy, { version, allowLoss }))
      assert.strictEqual(less["version"], version)
      const back = Effect.runSync(Effect.result(codec.decode(less)))
      if (Result.isFailure(back)) continue
      assert.notStrictEqual(json(back.success), json(toy))
      assert.deepStrictEqual(Effect.runSync(codec.encode(back.success, { version })), less)
    }
  })

  it.prop("L3 the schema reads what the codec writes", [Toy], ([toy]) => {
    const wire = Effect.runSync(Effect.result(Schema.encodeEffect(codec.schema)(toy)))
    if (Result.isFailure(wire)) return
    assert.strictEqual(json(Effect.runSync(Schema.decodeEffect(codec.schema)(wire.success))), json(toy))
  })
})

describe("PAY-B embedding", () => {
  const Box = Schema.Struct({ toys: Schema.Array(codec.schema) })

  test("PAY-B old versions inside of other data are read, the newest is written", function* () {
    const box = yield* Json.decode(Box)({ toys: [{ version: 1, name: "a", tools: ["t"] }] })
    assert.strictEqual(box.toys[0]?.tools[0]?.name, "t")
    const wire = yield* Json.encode(Box)(box)
    assert.deepStrictEqual(wire, {
      toys: [{ version: 3, name: "a", tools: [{ name: "t", description: "", tags: [] }], options: {} }]
    })
  })

  test("PAY-B errors inside keep their places, kinds and versions", function* () {
    const error = yield* Effect.flip(
      Json.decode(Box)({ toys: [{ version: 3, ...full, name: 1 }, { version: 9 }, { version: 2, name: "b" }] })
    )
    assert(error.reason._tag === "Invalid")
    assert.deepStrictEqual(
      error.reason.issues.map((issue) => [issue.path, issue.found]),
      [
        ["/toys/0/name", "number"],
        ["/toys/1/version", "9"],
        ["/toys/2/tools", "nothing"]
      ]
    )
    assert.strictEqual(error.reason.issues[0]?.expected, "string")
    assert.include(error.reason.issues[1]?.expected, "supported version")
  })
})

describe("VersionedCodec.single", () => {
  const Note = Schema.Struct({ title: Schema.String })
  const note = VersionedCodec.single({ what: "note", value: Note, header: { kind: "note" } })
  const notes = VersionedCodec.single({ what: "notes", value: Schema.Array(Note), member: "notes" })
  const problems = (effect: Effect.Effect<unknown, { readonly message: string }>) =>
    Effect.runSync(Effect.flip(effect)).message

  it("writes the version, the header, then the value, under the names that are given", () => {
    const Value = Schema.Struct({ kind: Schema.optionalKey(Schema.String), title: Schema.String })
    const write = <A>(codec: VersionedCodec.VersionedCodec<A>, value: A) => {
      const written = Effect.runSync(codec.encodeJson(value))
      assert.deepStrictEqual(Effect.runSync(codec.decodeJson(written)), value)
      return written
    }
    const page = VersionedCodec.single({ what: "page", value: Value, version: 7, field: "v" })
    const inner = VersionedCodec.single({ what: "page", value: Value, member: "page/1", header: { kind: "x" } })
    const texts = [
      write(note, { title: "a" }),
      write(notes, [{ title: "a" }]),
      write(page, { kind: "b", title: "a" }),
      write(inner, { kind: "b", title: "a" })
    ]
    expect(texts).toMatchInlineSnapshot(`
      [
        "{"version":1,"kind":"note","title":"a"}",
        "{"version":1,"notes":[{"title":"a"}]}",
        "{"v":7,"kind":"b","title":"a"}",
        "{"version":1,"kind":"x","page/1":{"kind":"b","title":"a"}}",
      ]
    `)
  })

  it("names the artefact and the place of what it cannot read or write", () => {
    const Small = Schema.Struct({ n: Schema.Int })
    const lossySchema = VersionedCodec.make({
      what: "letter",
      field: "version",
      type: Schema.String,
      arms: [
        VersionedCodec.arm({
          version: 1,
          wire: Schema.Struct({ version: Schema.Literal(1) }),
          toCurrent: () => Effect.succeed("a"),
          fromCurrent: () => VersionedCodec.lossy({ version: 1 as const }, [{ path: "/letter", what: "the letter" }])
        })
      ]
    }).schema
    const small = VersionedCodec.single({ what: "small", value: Small })
    const inner = VersionedCodec.single({ what: "inner", value: Small, member: "a/b", header: { kind: "x" } })
    const messages = [
      small.decode({ version: 1, n: 0.5 }),
      small.decode({ version: 1, n: 1, m: 2 }),
      small.decode({ version: 2, n: 1 }),
      inner.decode({ version: 1, kind: "x", "a/b": { n: "1" } }),
      inner.decode({ version: 1, kind: "y", "a/b": { n: 1 } }),
      inner.decode({ version: 1, kind: "x" }),
      inner.decode({ version: 1, kind: "x", "a/b": { n: 1 }, c: 1 }),
      small.encode({ n: 0.5 }),
      inner.encode({ n: 0.5 }),
      Schema.encodeEffect(codec.schema)({ ...full, options: { password: "x" } }),
      Schema.encodeEffect(lossySchema)("a")
    ].map(problems)
    expect(messages).toMatchInlineSnapshot(`
      [
        "small at /n: expected an integer, got number",
        "small at /m: expected no such key, got number",
        "small at /version: expected a supported version, 1, got 2. Use a release that knows it, or write an older version",
        "inner at /a~1b/n: expected number, got string",
        "inner at /kind: expected "x", got string",
        "inner at /a~1b: expected a value, got nothing",
        "inner at /c: expected no such key, got number",
        "small at /n: expected an integer, got number",
        "inner at /a~1b/n: expected an integer, got number",
        "Expected no secret, got the secret key "password"
        at ["options"]["password"]",
        "letter: version 1 cannot hold the letter (at /letter). List what may be lost in allowLoss, or write a newer version",
      ]
    `)
  })

  it("a value that does not encode to an object, and has no member, is a bug", () => {
    const codec = VersionedCodec.single({ what: "bare", value: Schema.Json })
    for (const value of [["a"], "a", 1, null]) {
      const exit = Effect.runSyncExit(codec.encode(value))
      assert.include(String(exit), "bare: expected a value that encodes to an object")
    }
  })

  it("refuses another header, other members and a missing one with their paths", () => {
    assert.include(problems(note.decode({ version: 1, kind: "other", title: "a" })), "/kind")
    assert.include(problems(note.decode({ version: 1, title: "a" })), "/kind")
    assert.include(problems(note.decode({ version: 1, kind: "note", title: 1 })), "/title")
    assert.include(problems(note.decode({ version: 1, kind: "note", title: "a", more: 1 })), "/more")
    assert.include(problems(notes.decode({ version: 1 })), "/notes")
    assert.include(problems(notes.decode({ version: 1, notes: [], more: 1 })), "/more")
    assert.include(problems(notes.decode({ version: 1, notes: [{ title: 1 }] })), "/notes/0/title")
    assert.include(problems(notes.decode({ version: 2, notes: [] })), "version")
  })
})

/** Generated keys may by chance be refused ones; nothing else may be refused. */
function assertRefusedKey(error: PayloadError.PayloadError | PayloadError.LossyEncoding): void {
  assert(error._tag === "PayloadError")
  assert.include(["ForbiddenKey", "Secret"], error.reason._tag)
}
