import { assert, beforeAll, describe, it } from "@effect/vitest"
import { readFileSync } from "node:fs"
import { join, relative } from "node:path"
import { examplesOf, generate, generated, root, type DocModule } from "../../scripts/doc-examples.ts"
import { requireBuild, run } from "./run.ts"

const examples = generate()

/** Compiler messages by generated module, each one rewritten to the place of the example. */
const typeErrors = new Map<string, ReadonlyArray<string>>()

const messagesOf = ({ module, origin }: DocModule): ReadonlyArray<string> =>
  (typeErrors.get(relative(root, module)) ?? []).map((message) => `${origin}${message}`)

describe("PKG-5 documentation examples", () => {
  requireBuild()
  beforeAll(async () => {
    const { output } = await run("tsc", ["-p", generated, "--pretty", "false"])
    let file = ""
    for (const line of output.split("\n")) {
      const [, found, place, message] = /^(\S+?)\((\d+),\d+\): (.*)$/.exec(line) ?? []
      if (found !== undefined) file = found
      const text = found === undefined ? line : `:${place} ${message}`
      if (file !== "" && text !== "") typeErrors.set(file, [...(typeErrors.get(file) ?? []), text])
    }
  })

  for (const example of examples) {
    it(`${example.origin}:${example.line}`, async () => {
      assert.deepStrictEqual(messagesOf(example), [])
      if (example.run) await import(example.module)
    })
  }
})

it("DOC-1 the first agent of the README, and the first with a tool, take fewer than 25 lines", () => {
  const fences = readFileSync(join(root, "README.md"), "utf8").match(/(?<=```ts(?: no-run)?\n)[^]*?(?=```)/g) ?? []
  for (const first of [fences[0], fences.find((fence) => fence.includes("Toolkit.make"))]) {
    assert.include(first, "Agent.")
    assert.isBelow(first?.trimEnd().split("\n").length ?? 0, 25)
  }
})

describe("PKG-5 extraction", () => {
  const fence = "```"

  it("finds the examples of a doc comment and of nothing else", () => {
    const text = [
      "/**",
      " * Says hello.",
      " *",
      ` * ${fence}ts`,
      " * const greeting = `hello`",
      " *",
      " * console.log(greeting)",
      ` * ${fence}`,
      ` * ${fence}json`,
      " * {}",
      ` * ${fence}`,
      " */",
      "export const a = `",
      `${fence}ts`,
      "no example",
      fence,
      "`"
    ].join("\n")
    assert.deepStrictEqual(examplesOf("src/a.ts", text), [
      { origin: "src/a.ts", line: 4, run: true, code: ["const greeting = `hello`", "", "console.log(greeting)"] }
    ])
  })

  it("takes longer fences and indented ones", () => {
    const text = ["- item", "", `  ${fence}ts no-run`, "  a()", `  ${fence}`, "````md", `${fence}ts`, "````"].join("\n")
    assert.deepStrictEqual(examplesOf("README.md", text), [{ origin: "README.md", line: 3, run: false, code: ["a()"] }])
  })

  it("refuses fences that would go unchecked", () => {
    for (const info of ["ts no-check", "typescript", "js", "tsx"]) {
      assert.throws(() => examplesOf("README.md", `${fence}${info}\n${fence}`), /README.md:1: fence an example/)
    }
    assert.throws(() => examplesOf("README.md", `text\n${fence}ts\n`), /README.md:2: this fence is never closed/)
  })
})
