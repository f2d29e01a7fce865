/** PEOPLE-3: the source of an argument is found by its texts. */
import { assert, describe, it } from "@effect/vitest"
import type { Schema } from "effect"
import * as argumentSources from "#src/tool/internal/argumentSources.ts"

const said = (...texts: ReadonlyArray<string>): argumentSources.Place => ({ source: "user", texts })
const read = (name: string, ...texts: ReadonlyArray<string>): argumentSources.Place => ({
  source: `tool/${name}`,
  texts
})

const sourceOf = (value: Schema.Json, places: ReadonlyArray<argumentSources.Place>, context = {}, parameters = {}) =>
  argumentSources.sourcesOf(["x"], { arguments: { x: value }, context, parameters }, places)["x"]

describe("PEOPLE-3 sources of arguments", () => {
  it("PEOPLE-3 a value of the user is words of their own in a message", () => {
    const texts = said("Pay 50 to ada@example.com, (please); the rest is 0.5 or -7, see order#42 and notes.md.")
    const found: ReadonlyArray<Schema.Json> = [50, "50", "ada@example.com", "please", 0.5, -7, "Pay 50", "notes.md"]
    for (const value of found) assert.strictEqual(sourceOf(value, [texts]), "user", String(value))
    const parts: ReadonlyArray<Schema.Json> = [5, "ada", "example.com", "leas", "42", "notes", "pay", "Bob"]
    for (const value of parts) assert.strictEqual(sourceOf(value, [texts]), "model", String(value))
    assert.strictEqual(sourceOf("ada@example.com", [said("ada@example.com.evil.org")]), "model")
    assert.strictEqual(sourceOf("ada@example.com", [said("xada@example.com")]), "model")
    assert.strictEqual(sourceOf("a", [said("b-a a-b ba", "a")]), "user")
  })

  it("PEOPLE-3 the user comes first, then the context, then other places in their order", () => {
    const places = [read("mail", "write to eve@example.com"), read("book", "ada", "eve@example.com"), said("to ada")]
    assert.strictEqual(sourceOf("ada", places, { me: "ada" }), "user")
    assert.strictEqual(sourceOf("eve@example.com", places, { me: { mail: "eve@example.com" } }), "context")
    assert.strictEqual(sourceOf("eve@example.com", places), "tool/mail")
    assert.strictEqual(sourceOf("eve", places), "tool/mail")
    assert.strictEqual(sourceOf("mallory", places), "model")
  })

  it("PEOPLE-3 an argument with values of several sources is mixed, and of too many values, too", () => {
    const places = [said("ada and bob"), read("mail", "eve")]
    assert.strictEqual(sourceOf(["ada", "bob"], places), "user")
    assert.strictEqual(sourceOf(["ada", "eve"], places), "mixed")
    assert.strictEqual(sourceOf(["ada", { to: "bob" }], places), "mixed")
    const parameters = { properties: { x: { items: { properties: { to: {} } } } } }
    assert.strictEqual(sourceOf(["ada", { to: "bob" }], places, {}, parameters), "user")
    assert.strictEqual(sourceOf([true, null, "", {}], places), "model")
    const many = Array.from({ length: 65 }, () => "ada")
    assert.strictEqual(sourceOf(many.slice(1), places), "user")
    assert.strictEqual(sourceOf(many, places), "mixed")
  })

  it("PEOPLE-3 an argument that is absent has no source, and inherited names are none", () => {
    const call = { arguments: { x: "ada" }, context: {}, parameters: {} }
    assert.deepStrictEqual(argumentSources.sourcesOf(["y", "toString"], call, [said("ada")]), {})
  })
})
