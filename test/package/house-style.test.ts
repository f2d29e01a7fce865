import { assert, beforeAll, describe, it } from "@effect/vitest"
import { cp, mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { afterAll } from "vitest"
import { root, run } from "./run.ts"

const doc = "/**\n * @category models\n * @since 0.1.0\n */\n"

/** A module that uses these modules, documented. */
const using = (...paths: ReadonlyArray<string>) =>
  [
    ...paths.map((path, index) => `import * as B${index} from ${JSON.stringify(path)}`),
    `${doc}export const a = [${paths.map((_, index) => `B${index}`).join()}, new Date(0)]\n`
  ].join("\n")

const times = (count: number, rule: string) => Array.from({ length: count }, () => rule)

/** The files of a small wrong library: a correct one, and one with the rules that it breaks, once for each report. */
const cases: Record<string, readonly [text: string, ...rules: ReadonlyArray<string>]> = {
  "src/payload/Right.ts": [using("effect/Effect", "effect/ai/Tool")],
  "src/agent/Down.ts": [
    `import type { A } from "../tool/A.ts"\n${using("../conversation/C.ts")}${doc}export type C = A\n`
  ],
  "src/testing/Everything.ts": [using("../agent/Agent.ts")],
  "src/node/Sqlite.ts": [using("node:sqlite", "../store/S.ts")],
  "src/agent/Lower.ts": [using("../payload/internal/values.ts", "./internal/own.ts")],
  "src/interop/Format.ts": [using("../conversation/internal/history.ts")],
  "src/payload/internal/undocumented.ts": ["export const a = 1\n"],
  "src/agent/wire/v1.ts": ["export const a = 1\n"],
  "src/tool/Cast.ts": [
    `${doc}export const a = (b: unknown) =>\n  // sound: the caller has checked it\n  b as string\n${doc}export const c = ["d"] as const\n`
  ],

  "src/plan/Walls.ts": [
    using("../payload/internal/linearPattern.ts", "../tool/internal/requestBody.ts", "../agent/wire/agentV1.ts"),
    ...times(3, "walls")
  ],
  "src/payload/Up.ts": [`import type { A } from "../tool/A.ts"\n${doc}export type B = A\n`, "room-arrows"],
  "src/tool/Sideways.ts": [`export * from "../conversation/C.ts"\n`, "room-arrows"],
  "src/tool/Inline.ts": [`${doc}export type A = import("../agent/A.ts").A\n`, "room-arrows"],
  "src/interop/Agent.ts": [using("../agent/Agent.ts"), "room-arrows"],
  "src/node/Agent.ts": [using("../agent/Agent.ts"), "room-arrows"],
  "src/conversation/Higher.ts": [using("../agent/internal/agentRun.ts"), "room-arrows"],
  "src/payload/index.ts": [
    `export * as Scan from "./internal/scan.ts"\nexport * as V1 from "./wire/v1.ts"\n`,
    ...times(2, "room-arrows")
  ],
  "src/agent/Barrel.ts": [`import { Json } from "../payload/index.ts"\n${doc}export const a = Json\n`, "room-arrows"],
  "src/agent/Testing.ts": [using("../testing/Script.ts"), "room-arrows"],
  "src/index.ts": [
    `export * from "./testing/index.ts"\nexport * as Bound from "./tool/internal/boundTool.ts"\nexport * from "./plan/index.ts"\n`,
    ...times(3, "room-arrows")
  ],
  "src/agent/Self.ts": [using("effect-emissary", "#src/agent/Run.ts"), ...times(2, "room-arrows")],
  "src/attic/Unknown.ts": [using("../payload/Json.ts"), "room-arrows"],
  "src/plan/Node.ts": [using("../node/SqliteClient.ts"), "room-arrows"],
  "src/payload/Barrels.ts": [
    `import { Effect } from "effect"\nimport { Tool } from "effect/ai"\nimport { McpServer } from "effect/http-api"\n${doc}export const a = [Effect, Tool, McpServer]\n`,
    ...times(3, "deep-imports")
  ],
  "src/tool/Platform.ts": [using("node:fs", "@effect/platform-node/NodeRuntime"), ...times(2, "portable")],
  "src/tool/Exceptions.ts": [
    `${doc}export const a = (f: () => void) => {\n  try {\n    f()\n  } catch {\n    throw new Error("no")\n  }\n}\n`,
    ...times(2, "effect-only")
  ],
  "src/tool/Promises.ts": [
    `${doc}export const a = async (b: () => void) => {\n  await new Promise<void>(b)\n  return Promise.resolve()\n}\n`,
    ...times(4, "effect-only")
  ],
  "src/tool/Time.ts": [
    `${doc}export const a = [Date.now(), new Date(), performance.now(), setTimeout(() => undefined, 1)]\n`,
    ...times(4, "effect-only")
  ],
  "src/tool/Chance.ts": [
    `${doc}export const a = [Math.random(), crypto.randomUUID(), globalThis.crypto.randomUUID()]\n`,
    ...times(3, "effect-only")
  ],
  "src/tool/Casts.ts": [
    `${doc}export const a = (b: unknown) => b as string\n${doc}export const c = (d: number) =>\n  // no reason is good enough\n  d as unknown as string\n`,
    ...times(2, "sound-casts")
  ],
  "src/tool/Words.ts": [
    `// What a tool tells.\n${doc}export const a = \`Nobody gives "it" to \${1}, so goes on\`\nconst tells = "tells"\n${doc}export const b = tells\n`,
    ...times(5, "plain-english")
  ],
  "test/tool/Words.test.ts": [
    `// What a test tells.\nit.effect("says what it found", () => "who gave what")\n`,
    "plain-english"
  ],
  "examples/words/main.ts": [
    `// What an example tells.\nexport const said = "nobody says it"\n`,
    ...times(2, "plain-english")
  ],
  "src/tool/Undocumented.ts": [
    "/** @since 0.1.0 */\nexport const a = 1\nexport interface B {}\n",
    ...times(2, "doc-tags")
  ]
}

interface Report {
  readonly diagnostics: ReadonlyArray<{ readonly code: string; readonly filename: string }>
}

/** The configuration of the repository with every rule of the house on. */
const configuration = async (): Promise<string> =>
  (await readFile(join(root, ".oxlintrc.json"), "utf8")).replaceAll(/("house\/[a-z-]+"): "off"/g, `$1: "error"`)

describe("KEEP-1 house style, and rooms that import in one direction", () => {
  let folder: string
  const found = new Map<string, Array<string>>()

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "house-style-"))
    await writeFile(join(folder, ".oxlintrc.json"), await configuration())
    await cp(join(root, "scripts", "lint"), join(folder, "scripts", "lint"), { recursive: true })
    await cp(join(root, "CONTRIBUTING.md"), join(folder, "CONTRIBUTING.md"))
    for (const [path, [text]] of Object.entries(cases)) {
      await mkdir(dirname(join(folder, path)), { recursive: true })
      await writeFile(join(folder, path), text)
    }
    const { output, stdout } = await run("oxlint", ["--format", "json", "src", "test", "examples"], folder)
    assert.match(stdout, /^\{/, output)
    const report: Report = JSON.parse(stdout)
    for (const { code, filename } of report.diagnostics) {
      const rule = /^house\((.*)\)$/.exec(code)?.[1]
      if (rule !== undefined) found.set(filename, [...(found.get(filename) ?? []), rule])
    }
  })

  afterAll(() => rm(folder, { recursive: true, force: true }))

  it.each(Object.keys(cases))("judges %s", (path) => {
    assert.deepStrictEqual(found.get(path) ?? [], cases[path]?.slice(1))
  })
})
