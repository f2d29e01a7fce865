import { assert, describe, it } from "@effect/vitest"
import { stepsPerCharacter } from "#src/payload/internal/linearPattern.ts"
import { glob, read, walk } from "../../scripts/sources.ts"
import { random } from "../random.ts"
import * as countedRegex from "./counted-regex.ts"

/** All patterns of the library. */
const patterns = glob("src/**/*.ts").flatMap((path) => {
  const source = read(path)
  const found: Array<{ readonly where: string; readonly pattern: RegExp }> = []
  walk(source.program, (node) => {
    const { regex } = node as { readonly regex?: { readonly pattern: string; readonly flags: string } }
    if (node.type !== "Literal" || regex === undefined) return
    found.push({
      where: `${path.slice("src/".length)}:${source.lineAt(node.start)}`,
      pattern: new RegExp(regex.pattern, regex.flags)
    })
  })
  return found
})

const isProven = ({ flags, source }: RegExp): boolean => {
  try {
    // The analysis is about the flag `u`, and one search: with `g` only what has a bound begins anywhere
    return new RegExp(source, `${flags.replace("u", "")}u`) instanceof RegExp && stepsPerCharacter(source) !== undefined
  } catch {
    return false
  }
}

/** Four times the text may take this many times the steps: quadratic work takes 16 times as many. */
const maxGrowth = 8

// Short, because the counter needs a part of the stack for each character
const length = 100

/** The steps of the shorter text, at most: 500 for a character. */
const maxSteps = 500 * length

const matchesOf = (pattern: RegExp, text: string): ReadonlyArray<countedRegex.Match> => {
  const again = new RegExp(pattern, pattern.flags)
  const all = pattern.global ? [...text.matchAll(again)] : [again.exec(text)]
  return all.flatMap((found) => (found === null ? [] : [{ index: found.index, end: found.index + found[0].length }]))
}

const growthOf = (pattern: RegExp, texts: number) => {
  const counted = countedRegex.make(pattern)
  const random_ = random(pattern.source.length)
  let worst = { growth: 0, text: "" }
  for (let count = 0; count < texts; count++) {
    const nearMiss = counted.nearMiss(random_)
    const short = counted.search(nearMiss(length), maxSteps)
    if (short.matches !== undefined) {
      assert.deepStrictEqual(short.matches, matchesOf(pattern, nearMiss(length)), `${pattern} of ${nearMiss(length)}`)
    }
    const enough = maxGrowth * Math.max(short.steps, length)
    const long = counted.search(nearMiss(4 * length), enough)
    const growth = short.matches === undefined ? Infinity : long.steps / enough
    if (growth > worst.growth) worst = { growth, text: nearMiss(60) }
    if (growth > 1) return worst
  }
  return worst
}

describe("L10 MEND-2 patterns take linear time", () => {
  it("the counter notices patterns that do not", () => {
    for (const pattern of [
      /\beyJ[\w-]{8,}\.[\w-]+(?:\.[\w-]*)?/g,
      /\/+$/,
      /[.\s]*$/,
      /(?:invalid|expired)[^.]*api[ _-]?key/i,
      /^[\w.]+\w*@$/,
      /^(?:\s*a\s*)*$/,
      /\[(?:\\.|[^\]\\])*\]/g
    ]) {
      assert.isAbove(growthOf(pattern, 100).growth, 1, String(pattern))
    }
  })

  it("all patterns of the library", () => {
    assert.isAbove(patterns.length, 100)
    for (const { pattern, where } of patterns.filter(({ pattern }) => !isProven(pattern))) {
      const { growth, text } = growthOf(pattern, 100)
      assert.isBelow(growth, 1, `${where} ${pattern} of ${JSON.stringify(text)}`)
    }
  })
})
