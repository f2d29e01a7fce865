import { assert, describe, it } from "@effect/vitest"
import { Effect, Result } from "effect"
import { JsonSchema } from "effect-emissary/payload"
import { Re2 } from "effect-emissary/re2"
import * as fuel from "#src/payload/internal/fuel.ts"
import { stepsPerCharacter } from "#src/payload/internal/linearPattern.ts"
import * as patterns from "#src/payload/internal/patterns.ts"
import { random } from "../../random.ts"

const engine = Effect.runSync(Effect.provide(Effect.service(patterns.PatternEngine), Re2.layer))

type Expression =
  | { readonly kind: "set"; readonly text: string }
  | { readonly kind: "all"; readonly parts: ReadonlyArray<Expression> }
  | { readonly kind: "any"; readonly parts: ReadonlyArray<Expression> }
  | { readonly kind: "repeat"; readonly body: Expression; readonly min: number; readonly max: number }

const expressions = (seed: number) => {
  const { below, pick, times } = random(seed)
  const repeats = [
    { min: 0, max: Infinity },
    { min: 1, max: Infinity },
    { min: 0, max: 1 },
    { min: 2, max: 2 },
    { min: 0, max: 3 },
    { min: 1, max: 2 }
  ]
  const expression = (depth: number): Expression => {
    const kind = depth === 0 ? 0 : below(4)
    if (kind < 2) return { kind: "set", text: pick(["a", "b", "c", "[ab]", "[^a]", "\\w", "."]) }
    if (kind === 2) return { kind: pick(["all", "any"] as const), parts: times(below(4), () => expression(depth - 1)) }
    return { kind: "repeat", body: expression(depth - 1), ...pick(repeats) }
  }
  const one = expression(4)
  const atStart = below(3) > 0
  const atEnd = below(2) === 1
  const text = (size: number, units: ReadonlyArray<string>) => times(size, () => pick(units)).join("")
  return { one, atStart, atEnd, text, source: `${atStart ? "^" : ""}(?:${sourceOf(one)})${atEnd ? "$" : ""}` }
}

const sourceOf = (one: Expression): string => {
  if (one.kind === "set") return one.text
  if (one.kind === "all") return one.parts.map(sourceOf).join("")
  if (one.kind === "any") return `(?:${one.parts.map(sourceOf).join("|")})`
  const most = one.max === Infinity ? "" : one.max
  return `(?:${sourceOf(one.body)}){${one.min},${most}}`
}

/** The steps of a search that goes back over its text as ECMA-262 describes, given up at a limit. */
const stepsOf = (one: Expression, text: string, atStart: boolean, atEnd: boolean, limit: number): number => {
  let steps = 0
  type Next = (at: number) => boolean
  const sets = new Map<string, RegExp>()
  const match = (node: Expression, at: number, next: Next): boolean => {
    steps += 1
    if (steps > limit) return true
    if (node.kind === "set") {
      const set = sets.get(node.text) ?? new RegExp(`^${node.text}$`, "u")
      sets.set(node.text, set)
      return at < text.length && set.test(text.charAt(at)) && next(at + 1)
    }
    if (node.kind === "any") return node.parts.some((part) => match(part, at, next))
    if (node.kind === "all") {
      const all = (index: number, from: number): boolean => {
        const part = node.parts[index]
        return part === undefined ? next(from) : match(part, from, (to) => all(index + 1, to))
      }
      return all(0, at)
    }
    const more = (count: number, from: number): boolean =>
      (count < node.max &&
        match(node.body, from, (to) => (to === from && count >= node.min ? false : more(count + 1, to)))) ||
      (count >= node.min && next(from))
    return more(0, at)
  }
  for (let from = 0; from <= (atStart ? 0 : text.length); from++) {
    if (match(one, from, (at) => !atEnd || at === text.length)) break
  }
  return steps
}

const compile = (source: string) => patterns.compilePattern(source, fuel.make(Infinity), engine)

describe("FAST-3 patterns on the platform", () => {
  it("FAST-3 a pattern that is accepted takes at most the steps that are charged for each character", () => {
    let accepted = 0
    for (let seed = 0; seed < 6000; seed++) {
      const { atEnd, atStart, one, source, text } = expressions(seed)
      const steps = stepsPerCharacter(source)
      if (steps === undefined) continue
      accepted += 1
      for (const units of ["a", "ab", "abc-", "ab", "aab"]) {
        const subject = text(50, Array.from(units))
        // A step of the engine is a few of this count: it counts groups and repeats, too
        const limit = 20 * steps * (subject.length + 1)
        assert.isAtMost(stepsOf(one, subject, atStart, atEnd, limit), limit, `${source} on ${subject}`)
      }
    }
    assert.isAbove(accepted, 1000)
  })

  it("FAST-3 these run on the platform", () => {
    const sources = [
      "^[a-z0-9-]+$",
      "^\\d{4}-\\d{2}-\\d{2}$",
      "^[A-Z]{2,3}-\\d+$",
      "^https?://",
      "^[a-zA-Z_][a-zA-Z0-9_]*$",
      "^[\\w.-]+@[\\w-]+\\.[\\w.-]+$",
      "^(?:pending|paid|done)$",
      "^[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}$",
      "^\\+?[1-9]\\d{1,14}$",
      "^(\\d+)(\\.\\d+)?$",
      "^v\\d+\\.\\d+\\.\\d+$",
      "^[A-Za-z]+( [A-Za-z]+)*$",
      "^\\p{L}+$",
      "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
      "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$",
      "^[a-z][a-z0-9.]*[a-z0-9]{1,3}$",
      "^(?:[a-z]|[a-z][a-z_]*[a-z])$",
      "^(?:[a-z][a-z-]*[a-z])?/v1$",
      "^(?:a|ab)(?:c|bcd)$",
      "^a*a$",
      "^x?x?x$",
      "[a-z]+",
      "foo"
    ]
    assert.deepStrictEqual(
      sources.filter((source) => stepsPerCharacter(source) === undefined),
      []
    )
  })

  it("FAST-3 these do not: they go back over their text, or it is not known that they do not", () => {
    const sources = [
      "^(a+)+$",
      "^(a*)*$",
      "^(?:a|a)*$",
      "^(?:(?:a|a))+$",
      "^((a|ab|b))*$",
      "^(?:a*a)*$",
      "^a*a*a$",
      "^a*a{300}$",
      "^a*(?:a?){12}$",
      "^a*(?:a|b(?:a*a)*)$",
      "[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
      "a*b",
      "(a+)+$",
      "^(?:a?b?)*$",
      "^(?:a?){20}a{20}$",
      "^[^@]+@[^@]+\\.[^@]+$",
      "^.*foo.*$",
      "\\bfoo",
      "(^a|b$)",
      `^${"(?:".repeat(40)}a${")".repeat(40)}$`,
      "^a{300}$",
      "[ab]{70}",
      `^${"(|)".repeat(30)}a$`
    ]
    assert.deepStrictEqual(
      sources.filter((source) => stepsPerCharacter(source) !== undefined),
      []
    )
  })

  it("TRUST-3 finding out takes a bounded number of units, which a pattern is charged for", () => {
    const sources = [
      "^(?:){99999999}a$",
      "^(?:(?:a{0}){9999}){9999}a$",
      `^(?:${"a|b|".repeat(30)}c){9}$`,
      `^${"(?:[ab]?c?){0,99}".repeat(50)}$`
    ]
    for (const source of sources) {
      const tank = fuel.make(1000)
      assert.isUndefined(stepsPerCharacter(source, tank), source)
      assert.isTrue(fuel.isEmpty(tank), source)
      assert.isBelow(tank.spent, 20_000, source)
      const whole = fuel.make(1_000_000)
      patterns.compilePattern(source, whole, engine)
      assert.isAbove(whole.spent, tank.spent, source)
    }
  })

  it("FAST-3 a pattern matches the same texts on both engines", () => {
    let compared = 0
    for (let seed = 0; seed < 1500; seed++) {
      const { source, text } = expressions(seed)
      // The platform is not known to run two repeats of the same characters, which are never reached here
      const [here, there] = [compile(source), compile(`${source}|^\u0001\u0001*\u0001*$`)]
      if (stepsPerCharacter(source) === undefined || Result.isFailure(here) || Result.isFailure(there)) continue
      compared += 1
      for (const size of [0, 1, 2, 3, 5, 8]) {
        const subject = text(size, ["a", "b", "c", "-", "é", "🙂"])
        assert.strictEqual(here.success.test(subject), there.success.test(subject), `${source} on ${subject}`)
      }
    }
    assert.isAbove(compared, 300)
  })

  it("DESIGN 5.10 the size of a program of RE2 is known from the pattern", () => {
    const sources = ["a", "a+", "a?", "a*", "ab", "a|b", "(a)", "(?:a)", "{", "a{3}", "(a{2,4}|b)+"]
    assert.deepStrictEqual(sources.map(patterns.boundProgramSize), [4, 5, 5, 6, 5, 7, 6, 4, 4, 6, 15])
  })

  it("FAST-3 KEEP-7 without Re2.layer a pattern that may be slow is refused by name, also one that was accepted under it", () => {
    const document = { type: "string", pattern: "^[^@]+@[^@]+\\.[^@]+x$" }
    const accepted = Effect.runSync(Effect.provide(JsonSchema.make(document), Re2.layer))
    for (const again of [document, structuredClone(document)]) {
      const error = Effect.runSync(Effect.flip(JsonSchema.make(again)))
      assert.include(error.message, 'Provide Re2.layer of "effect-emissary/re2" to run such patterns on RE2')
      assert.strictEqual(error.path, "/pattern")
      assert.strictEqual(Effect.runSync(Effect.provide(JsonSchema.make(document), Re2.layer)), accepted)
    }
    assert.isTrue(JsonSchema.accepts(accepted, "a@b.cx"))
  })
})
