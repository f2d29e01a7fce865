import { assert, describe, it } from "@effect/vitest"
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { onTestFinished } from "vitest"
import { measure, withFiles, type Figures } from "../../scripts/house.ts"
import { shared } from "../../scripts/lint/shared.ts"
import config from "../../vitest.config.ts"
import { glob, parse, read, root, walk, type Source } from "../../scripts/sources.ts"

/** The lines about files in a page. */
const linesOf = (page: string): ReadonlyArray<string> =>
  page.split("\n").filter((line) => /^- `\w[\w/-]*`[:,]/.test(line))

/** `npm run house -- --details` prints the figures of the house and what is behind each: files have no limit. */
describe("HOUSE-1 HOUSE-2 MEND-13 laws of the files", () => {
  const figures = measure()

  it("no files import each other, type imports included", () => {
    assert.deepStrictEqual(figures.circles, [])
  })

  it("no file name occurs twice", () => {
    assert.deepStrictEqual(figures.duplicates, [])
  })

  it("HOUSE-7 rooms share the modules that CONTRIBUTING lists for other rooms, with the rooms that it names", () => {
    const rows = Object.fromEntries(shared)
    const used = Object.entries(figures.shared).map(([path, rooms]) => {
      const module = path.replace(/^src\/(.*)\.ts$/, "$1")
      return [module, rows[module] === "all" && rooms.length > 4 ? "all" : rooms]
    })
    assert.deepStrictEqual(rows, Object.fromEntries(used))
  })

  it("HOUSE-11 CONTRIBUTING has a line for each file, with the first sentence of the file", () => {
    const page = readFileSync(join(root, "CONTRIBUTING.md"), "utf8")
    assert.deepStrictEqual(linesOf(page), linesOf(withFiles(page)), "`npm run house -- --files` writes the lines")
  })

  it("MEND-1 a test has time for a machine with ten times the work of its cores", () => {
    assert.isAtLeast(Number(config.test?.testTimeout), 300_000)
    assert.isAtLeast(Number(config.test?.hookTimeout), 300_000)
    const timed = glob("test/**/*.test.ts").filter((path) =>
      /assert\.\w+\([^)]*performance\.now\(\)/.test(readFileSync(path, "utf8"))
    )
    assert.deepStrictEqual(timed, [])
  })

  it("KEEP-5 no function is longer than 150 lines", () => {
    assert.isAtMost(figures.longest.lines, 150, `${figures.longest.path}:${figures.longest.line}`)
  })
})

describe("HOUSE-2 runs are opened", () => {
  it("HOUSE-2 the loop of runs is performed by handles alone, and runs inside runs have one adapter", () => {
    const callersOf = (name: string) =>
      glob("src/**/*.ts").filter((path) => new RegExp(`\\.${name}\\(`).test(readFileSync(path, "utf8")))
    assert.deepStrictEqual(callersOf("runMachine"), ["src/run/internal/liveRun.ts"])
    const before = /\b(?:Handed|ParentRun|Sink|journalOf|sinkOf|runChild)\b/
    assert.deepStrictEqual(
      glob("src/**/*.ts").filter((path) => before.test(readFileSync(path, "utf8"))),
      []
    )
  })
})

/** The calls of Effect that start, watch or end a fiber behind the back of its parent. */
const fiberCall = /^(?:runFork\w*|fork\w*Unsafe|interruptUnsafe|pollUnsafe|addObserver)$/

/** The lines with such calls, by file. */
const fiberCalls = (sources: ReadonlyArray<Source>): Readonly<Record<string, ReadonlyArray<number>>> =>
  Object.fromEntries(
    sources.flatMap(({ lineAt, path, program }) => {
      const lines: Array<number> = []
      walk(program, ({ name, start, type }) => {
        if (type === "Identifier" && typeof name === "string" && fiberCall.test(name)) lines.push(lineAt(start))
      })
      return lines.length === 0 ? [] : [[path, lines]]
    })
  )

describe("KEEP-7 fibers have their parents", () => {
  it("KEEP-7 fibers are started, watched and ended by hand in one file, in at most eight places", () => {
    const found = fiberCalls(glob("src/**/*.ts").map((path) => read(path)))
    assert.isAtMost(Object.keys(found).length, 1, JSON.stringify(found))
    assert.isAtMost(Object.values(found).flat().length, 8, JSON.stringify(found))
  })

  it("KEEP-7 such calls are found wherever they are, and comments are none", () => {
    const text = `// fiber.interruptUnsafe()\nconst fork = Effect.runForkWith(context)\nconst { pollUnsafe } = fiber\nfiber?.addObserver(f)\nfork(a)`
    assert.deepStrictEqual(new Set(fiberCalls([parse("a.ts", text)])["a.ts"]), new Set([2, 3, 4]))
  })
})

/** The figures of a small library. */
const measured = (files: Record<string, string>): Figures => {
  const folder = mkdtempSync(join(tmpdir(), "house-figures-"))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const exports = {
    "./package.json": "./package.json",
    ".": { default: "./dist/index.js" },
    "./a": "./dist/a/index.js"
  }
  for (const [path, text] of Object.entries({ "package.json": JSON.stringify({ exports }), ...files })) {
    mkdirSync(dirname(join(folder, path)), { recursive: true })
    writeFileSync(join(folder, path), text)
  }
  return measure(folder)
}

describe("HOUSE-1 what is measured", () => {
  it("a line of code has a token other than a comment", () => {
    const lines = [
      "/**",
      " * const a = 1",
      " */",
      "",
      "export const a = `//` // one",
      "/* a */ export const b = /[/*]/ /* two",
      " a */",
      "export const c = `",
      "  /* text */",
      "",
      "`"
    ]
    assert.strictEqual(measured({ "src/a/A.ts": lines.join("\n") }).code, 5)
  })

  it("imports have their share, and files without them are small", () => {
    const imports = `import {\n  b\n} from "./B.ts"\nimport "./C.ts"\n`
    const code = (count: number) => "void 0\n".repeat(count)
    const figures = measured({
      "src/a/A.ts": imports + code(39),
      "src/a/B.ts": code(40),
      "src/a/C.ts": code(1),
      "src/a/index.ts": ""
    })
    assert.strictEqual(figures.importShare, 4.8)
    assert.deepStrictEqual(figures.small, ["src/a/A.ts", "src/a/C.ts"])
    assert.deepStrictEqual(figures.largest, { path: "src/a/A.ts", code: 43 })
  })

  it("KEEP-5 the longest function is found wherever it is, with the lines of its body", () => {
    const generator = "const c = f(function* () {\n  // one\n\n  yield 1\n})"
    const figures = measured({
      "src/a/A.ts": "export const a = () => {\n  return 1\n}",
      "src/a/B.ts": `class B {\n  b() {\n    ${generator.replaceAll("\n", "\n    ")}\n  }\n}`,
      "src/a/C.ts": generator
    })
    assert.deepStrictEqual(figures.longest, { path: "src/a/B.ts", line: 2, lines: 7 })
  })

  it("type imports and re-exports close a circle", () => {
    const { circles } = measured({
      "src/a/A.ts": `import type { B } from "./B.ts"\nexport type A = B`,
      "src/a/B.ts": `export type B = import("../b/C.ts").C`,
      "src/b/C.ts": `export type { A as C } from "../a/A.ts"`,
      "src/b/D.ts": `import * as A from "../a/A.ts"\nexport const d = A`,
      "src/b/E.ts": `export * from "./F.ts"`,
      "src/b/F.ts": `export const f = () => import("./E.ts")`
    })
    assert.deepStrictEqual(circles, [
      ["src/a/A.ts", "src/a/B.ts", "src/b/C.ts"],
      ["src/b/E.ts", "src/b/F.ts"]
    ])
  })

  it("a public name counts once, whatever exports it", () => {
    const { duplicates, names, surface } = measured({
      "src/index.ts": `export * from "./a/index.ts"`,
      "src/a/index.ts": `export * as A from "./A.ts"\nexport * as B from "./B.ts"\n`,
      "src/a/A.ts": `export interface A {}\nexport const A = 1\nconst b = 2\nexport { b as c }\nexport class D {}`,
      "src/a/B.ts": `export * from "./internal/b.ts"\nexport const f = 1, g = 2`,
      "src/a/internal/b.ts": `export function h() {}`,
      "src/b/A.ts": ``
    })
    const expected = { namespaces: ["A", "B"], names: ["A.A", "A.D", "A.c", "B.f", "B.g", "B.h"] }
    assert.deepStrictEqual(surface, { ".": expected, "./a": expected })
    assert.strictEqual(names, 6)
    assert.deepStrictEqual(duplicates, [["src/a/A.ts", "src/b/A.ts"]])
  })
})
