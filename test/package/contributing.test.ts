import { assert, describe, it } from "@effect/vitest"
import { readFileSync } from "node:fs"
import { basename, join } from "node:path"
import { glob, read, withoutComments } from "../../scripts/sources.ts"
import { root, run } from "./run.ts"

const page = readFileSync(join(root, "CONTRIBUTING.md"), "utf8")

type Parts = ReadonlyMap<string, ReadonlyArray<string>>

const bodyOf = (text: string, section: string): string =>
  (text.split(`\n## ${section}\n`)[1] ?? "").split("\n## ")[0] ?? ""

/** The parts of a section by their headings: the numbered steps of each. */
const partsOf = (text: string, section: string): Parts => {
  const [, ...parts] = bodyOf(text, section).split("\n### ")
  return new Map(
    parts.map((part) => {
      const [title = "", ...steps] = part.trim().split(/\n+(?=\d+\. )/)
      return [title, steps]
    })
  )
}

const stories = partsOf(page, "Five stories")
const recipes = partsOf(page, "Four recipes")

const quotesOf = (text: string): ReadonlyArray<string> =>
  [...text.matchAll(/`([^`]+)`/g)].map(([, quote = ""]) => quote)

const isFile = (quote: string): boolean => /^[\w./-]+\.ts$/.test(quote)

const files = glob("{src,test,scripts}/**/*.ts")

/** The file of a path, or of the name of a file of `src`. */
const fileOf = (name: string): string | undefined =>
  files.find((path) => path === name || (path.startsWith("src/") && basename(path) === name))

const codeOf = (name: string): string => {
  const path = fileOf(name)
  return path === undefined ? "" : withoutComments(read(path))
}

/** The files and names of a text that do not exist. A name is in the code of a file that the text names. */
const missingIn = (text: string): ReadonlyArray<string> => {
  const quotes = quotesOf(text)
  const named = quotes.filter(isFile)
  const code = named.map(codeOf).join("\n")
  const declared = [...text.matchAll(/`(\w+)`\s+in\s+`([^`]+\.ts)`/g)].filter(([, name = "", file = ""]) => {
    const form = new RegExp(`^ *(export )?(const|class|interface|type) ${name}\\b`, "m")
    return !form.test(codeOf(file))
  })
  return [
    ...named.filter((name) => fileOf(name) === undefined),
    ...(named.length === 0 ? [] : quotes.filter((quote) => /^\w+(\.\w+)?$/.test(quote) && !isFile(quote)))
      .filter((name) => !new RegExp(`\\b${name}\\b`).test(code))
      .map((name) => `${name}: not in ${named.join(", ")}`),
    ...declared.map(([place]) => `${place}: not declared there`)
  ]
}

/** The files of `src` that a commit changed and that the recipe, as it was then, does not name. */
const beyond = (recipe: ReadonlyArray<string>, changed: ReadonlyArray<string>): ReadonlyArray<string> => {
  const named = new Set(recipe.flatMap(quotesOf))
  return changed.filter((path) => path.startsWith("src/") && !named.has(path))
}

const advice = "the page names what has moved or has another name now: follow its step in the code, and mend the step"

describe("HOUSE-11 the page for contributors", () => {
  it("HOUSE-10 HOUSE-11 names files that exist, and names that they have", () => {
    const paths = [...page.matchAll(/`((?:src|test|scripts)\/[^`*<>\s]+\.ts)`/g)].map(([, path = ""]) => path)
    assert.isAbove(paths.length, 100)
    assert.deepStrictEqual(
      paths.filter((path) => fileOf(path) === undefined),
      [],
      advice
    )
    const places = bodyOf(page, "Other places").split(/\n(?=- )/)
    const steps = [...stories.values(), ...recipes.values(), places].flat()
    assert.deepStrictEqual(steps.flatMap(missingIn), [], advice)
  })

  it("HOUSE-11 has one picture, five stories of at most 12 steps, and four recipes", () => {
    assert.strictEqual(page.split("```mermaid").length - 1, 1)
    assert.strictEqual(stories.size, 5)
    for (const [title, steps] of stories) {
      assert.isAtLeast(steps.length, 5, title)
      assert.isAtMost(steps.length, 12, title)
    }
    assert.strictEqual(recipes.size, 4)
  })

  it("HOUSE-11 the last commit of each recipe changed no file of src that the recipe did not name", async () => {
    for (const title of recipes.keys()) {
      const found = await run("git", ["log", "-1", "--format=%H %P", `--grep=^Recipe: ${title}$`])
      const [commit = "", parent = ""] = found.stdout.trim().split(" ")
      // Without a history, or where a short one begins with the commit, there is nothing to compare
      if ((await run("git", ["cat-file", "-e", `${parent}^{commit}`])).code !== 0) continue
      const { stdout: then } = await run("git", ["show", `${commit}:CONTRIBUTING.md`])
      const { stdout: changed } = await run("git", ["show", "--format=", "--name-only", commit, "--", "src"])
      const recipe = partsOf(then, "Four recipes").get(title) ?? []
      assert.deepStrictEqual(beyond(recipe, changed.split("\n")), [], `${commit}: extend the recipe "${title}"`)
    }
  })

  it("HOUSE-11 a step is compared with the code, a commit with its recipe", () => {
    assert.deepStrictEqual(missingIn("`pieces` in `src/agent/Nowhere.ts`, `fold.ts`"), [
      "src/agent/Nowhere.ts",
      "pieces: not in src/agent/Nowhere.ts, fold.ts",
      "`pieces` in `src/agent/Nowhere.ts`: not declared there"
    ])
    assert.deepStrictEqual(missingIn("`nextMessage` in `fold.ts`, `Schema.Struct`"), [])
    const recipe = ["1. `a` in `src/a/A.ts`", "2. `test/a.test.ts`"]
    assert.deepStrictEqual(beyond(recipe, ["src/a/A.ts", "src/b/B.ts", "docs/a.md", ""]), ["src/b/B.ts"])
  })
})
