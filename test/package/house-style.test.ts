import { assert, beforeAll, describe, it } from "@effect/vitest"
import { cp, mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { afterAll } from "vitest"
import { root, run } from "./run.ts"

const doc = "/**\n * @category models\n * @since 0.1.0\n */\n"

/** The reports expected for each file of a small wrong library, by rule; an empty list is a correct file. */
const cases: Record<string, { readonly text: string; readonly rules: ReadonlyArray<string> }> = {
  "src/payload/Right.ts": {
    text: `import * as Effect from "effect/Effect"\nimport * as Tool from "effect/ai/Tool"\n${doc}export const a = [Effect, Tool, new Date(0)]\n`,
    rules: []
  },
  "src/agent/Down.ts": {
    text: `import type { A } from "../tool/A.ts"\nimport * as Conversation from "../conversation/C.ts"\n${doc}export const a = (b: A) => [b, Conversation]\n`,
    rules: []
  },
  "src/testing/Everything.ts": {
    text: `import * as Agent from "../agent/Agent.ts"\n${doc}export const a = Agent\n`,
    rules: []
  },
  "src/node/Sqlite.ts": {
    text: `import * as Sqlite from "node:sqlite"\nimport * as Store from "../conversation/S.ts"\n${doc}export const a = [Sqlite, Store]\n`,
    rules: []
  },
  "src/agent/Lower.ts": {
    text: `import * as Codec from "../payload/internal/codec.ts"\nimport * as Own from "./internal/own.ts"\n${doc}export const a = [Codec, Own]\n`,
    rules: []
  },
  "src/interop/Format.ts": {
    text: `import * as History from "../conversation/internal/history.ts"\n${doc}export const a = History\n`,
    rules: []
  },
  "src/payload/internal/undocumented.ts": { text: "export const a = 1\n", rules: [] },
  "src/tool/Cast.ts": {
    text: `${doc}export const a = (b: unknown) =>\n  // sound: the caller has checked it\n  b as string\n${doc}export const c = ["d"] as const\n`,
    rules: []
  },

  "src/payload/Up.ts": {
    text: `import type { A } from "../tool/A.ts"\n${doc}export type B = A\n`,
    rules: ["room-arrows"]
  },
  "src/tool/Sideways.ts": { text: `export * from "../conversation/C.ts"\n`, rules: ["room-arrows"] },
  "src/tool/Inline.ts": { text: `${doc}export type A = import("../agent/A.ts").A\n`, rules: ["room-arrows"] },
  "src/interop/Agent.ts": {
    text: `import * as Agent from "../agent/Agent.ts"\n${doc}export const a = Agent\n`,
    rules: ["room-arrows"]
  },
  "src/node/Agent.ts": {
    text: `import * as Agent from "../agent/Agent.ts"\n${doc}export const a = Agent\n`,
    rules: ["room-arrows"]
  },
  "src/conversation/Higher.ts": {
    text: `import * as Driver from "../agent/internal/driver.ts"\n${doc}export const a = Driver\n`,
    rules: ["room-arrows"]
  },
  "src/payload/index.ts": {
    text: `export * as Scan from "./internal/scan.ts"\nexport * as V1 from "./wire/v1.ts"\n`,
    rules: ["room-arrows", "room-arrows"]
  },
  "src/agent/wire/v1.ts": { text: "export const a = 1\n", rules: [] },
  "src/agent/Barrel.ts": {
    text: `import { Json } from "../payload/index.ts"\n${doc}export const a = Json\n`,
    rules: ["room-arrows"]
  },
  "src/agent/Testing.ts": {
    text: `import * as Script from "../testing/Script.ts"\n${doc}export const a = Script\n`,
    rules: ["room-arrows"]
  },
  "src/index.ts": {
    text: `export * from "./testing/index.ts"\nexport * as Bound from "./tool/internal/boundTool.ts"\nexport * from "./plan/index.ts"\n`,
    rules: ["room-arrows", "room-arrows", "room-arrows"]
  },
  "src/agent/Self.ts": {
    text: `import { Agent } from "effect-emissary"\nimport * as Run from "#src/agent/Run.ts"\n${doc}export const a = [Agent, Run]\n`,
    rules: ["room-arrows", "room-arrows"]
  },
  "src/attic/Unknown.ts": {
    text: `import * as Json from "../payload/Json.ts"\n${doc}export const a = Json\n`,
    rules: ["room-arrows"]
  },
  "src/payload/Barrels.ts": {
    text: `import { Effect } from "effect"\nimport { Tool } from "effect/ai"\nimport { McpServer } from "effect/http-api"\n${doc}export const a = [Effect, Tool, McpServer]\n`,
    rules: ["deep-imports", "deep-imports", "deep-imports"]
  },
  "src/tool/Platform.ts": {
    text: `import * as Fs from "node:fs"\nimport * as Node from "@effect/platform-node/NodeRuntime"\n${doc}export const a = [Fs, Node]\n`,
    rules: ["portable", "portable"]
  },
  "src/plan/Node.ts": {
    text: `import * as SqliteClient from "../node/SqliteClient.ts"\n${doc}export const a = SqliteClient\n`,
    rules: ["room-arrows"]
  },
  "src/tool/Exceptions.ts": {
    text: `${doc}export const a = (f: () => void) => {\n  try {\n    f()\n  } catch {\n    throw new Error("no")\n  }\n}\n`,
    rules: ["effect-only", "effect-only"]
  },
  "src/tool/Promises.ts": {
    text: `${doc}export const a = async (b: () => void) => {\n  await new Promise<void>(b)\n  return Promise.resolve()\n}\n`,
    rules: ["effect-only", "effect-only", "effect-only", "effect-only"]
  },
  "src/tool/Time.ts": {
    text: `${doc}export const a = [Date.now(), new Date(), performance.now(), setTimeout(() => undefined, 1)]\n`,
    rules: ["effect-only", "effect-only", "effect-only", "effect-only"]
  },
  "src/tool/Chance.ts": {
    text: `${doc}export const a = [Math.random(), crypto.randomUUID(), globalThis.crypto.randomUUID()]\n`,
    rules: ["effect-only", "effect-only", "effect-only"]
  },
  "src/tool/Casts.ts": {
    text: `${doc}export const a = (b: unknown) => b as string\n${doc}export const c = (d: number) =>\n  // no reason is good enough\n  d as unknown as string\n`,
    rules: ["sound-casts", "sound-casts"]
  },
  "src/tool/Words.ts": {
    text: `// What a tool tells.\n${doc}export const a = \`Nobody gives "it" to \${1}, so goes on\`\nconst tells = "tells"\n${doc}export const b = tells\n`,
    rules: ["plain-english", "plain-english", "plain-english", "plain-english", "plain-english"]
  },
  "test/tool/Words.test.ts": {
    text: `// What a test tells.\nit.effect("says what it found", () => "who gave what")\n`,
    rules: ["plain-english"]
  },
  "examples/words/main.ts": {
    text: `// What an example tells.\nexport const said = "nobody says it"\n`,
    rules: ["plain-english", "plain-english"]
  },
  "src/tool/Undocumented.ts": {
    text: "/** @since 0.1.0 */\nexport const a = 1\nexport interface B {}\n",
    rules: ["doc-tags", "doc-tags"]
  }
}

interface Report {
  readonly diagnostics: ReadonlyArray<{ readonly code: string; readonly filename: string }>
}

/** The configuration of the repository with every rule of the house on. */
const configuration = async (): Promise<string> =>
  (await readFile(join(root, ".oxlintrc.json"), "utf8")).replaceAll(/("house\/[a-z-]+"): "off"/g, `$1: "error"`)

describe("house style", () => {
  let folder: string
  const found = new Map<string, Array<string>>()

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "house-style-"))
    await writeFile(join(folder, ".oxlintrc.json"), await configuration())
    await cp(join(root, "scripts", "lint"), join(folder, "scripts", "lint"), { recursive: true })
    for (const [path, { text }] of Object.entries(cases)) {
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
    assert.deepStrictEqual(found.get(path) ?? [], cases[path]?.rules)
  })
})
