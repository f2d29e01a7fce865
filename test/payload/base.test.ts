import { assert, describe, it } from "@effect/vitest"
import { Effect, Schema } from "effect"
import { JsonSchema, VersionedCodec } from "effect-emissary/payload"
import * as plainJson from "#src/payload/internal/plainJson.ts"

describe("base", () => {
  it("defined drops undefined members and keeps the order of the others", () => {
    const a: number | undefined = undefined
    const made: { readonly x: number; readonly a?: number; readonly n: null } = plainJson.defined({ x: 1, a, n: null })
    assert.strictEqual(JSON.stringify(made), `{"x":1,"n":null}`)
    assert.isFalse(Object.hasOwn(made, "a"))
  })

  it("L2 own reads no inherited member", () => {
    assert.strictEqual(plainJson.own<number>({ constructor: 1 }, "constructor"), 1)
    for (const name of plainJson.inheritedNames) assert.isUndefined(plainJson.own<unknown>({ a: 1 }, name))
  })
})

describe("VersionedCodec.single", () => {
  const Note = Schema.Struct({ title: Schema.String })
  const note = VersionedCodec.single({ what: "note", value: Note, header: { kind: "note" } })
  const notes = VersionedCodec.single({ what: "notes", value: Schema.Array(Note), member: "notes" })
  const problems = (effect: Effect.Effect<unknown, { readonly message: string }>) =>
    Effect.runSync(Effect.flip(effect)).message

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

describe("JsonSchema.make compiles a document once", () => {
  it("for the same object and for an equal one, unless the limits differ", () => {
    const document = () => ({ type: "object", properties: { once: { type: "string" } } })
    const first = document()
    const schema = Effect.runSync(JsonSchema.make(first))
    assert.strictEqual(Effect.runSync(JsonSchema.make(first)), schema)
    assert.strictEqual(Effect.runSync(JsonSchema.make(document())), schema)
    const error = Effect.runSync(Effect.flip(JsonSchema.make(first, { limits: { maxDepth: 2 } })))
    assert.strictEqual(error._tag, "JsonSchemaError")
  })
})
