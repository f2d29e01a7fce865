/**
 * DOCS-6: the packed package in programs of others: installed by npm, pnpm and Bun, on Node 22 and 24, compiled by TypeScript 5.9 and
 * 7, and bundled for a browser. The tools that the root does not have are a package of their own: `npm ci --prefix test/consumers`.
 */
import { afterAll, assert, beforeAll, describe, it } from "@effect/vitest"
import { build } from "esbuild"
import { existsSync } from "node:fs"
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import manifest from "../../package.json" with { type: "json" }
import { checks, done, main, pack, resolutions, specifierOf, subpaths } from "./packed.ts"
import { requireBuild, root, run } from "./run.ts"

const tools = join(root, "test", "consumers", "node_modules", ".bin")

const isInstalled = existsSync(tools)

const isRequired = process.env["EMISSARY_CONSUMERS"] === "required"

/** An agent as a program in TypeScript has one, whose types are checked. */
const typed = `
import { Effect, Layer, Schema } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { Agent, type AgentError } from "effect-emissary"
import { ScriptedModel } from "effect-emissary/testing"
import schema from "effect-emissary/schemas/agent-2.schema.json" with { type: "json" }
${subpaths.map((subpath, index) => `import type * as Room${index} from "${specifierOf(subpath)}"`).join("\n")}

const Add = Tool.make("add", { parameters: Schema.Struct({ n: Schema.Finite }), success: Schema.Finite })
const toolkit = Toolkit.make(Add)
const adder = Agent.make("adder", { toolkit, output: Schema.Struct({ sum: Schema.Finite }) })
const Live = Layer.mergeAll(toolkit.toLayer({ add: ({ n }) => Effect.succeed(n + 1) }), ScriptedModel.layer([{ text: "{}" }]))
export const answer: Effect.Effect<
  { readonly sum: number },
  AgentError.AgentError | AgentError.RunIncomplete
> = adder.ask("q").pipe(Effect.provide(Live))
export const title: string = schema.title
// @ts-expect-error: the answer is no text
export const text: Effect.Effect<string, unknown> = adder.ask("q").pipe(Effect.provide(Live))
export type Rooms = [${subpaths.map((_, index) => `keyof typeof Room${index}`).join(", ")}]
`

const compilerOptions = {
  strict: true,
  exactOptionalPropertyTypes: true,
  noEmit: true,
  target: "ES2023",
  lib: ["ES2023", "DOM", "DOM.Iterable"],
  types: [],
  resolveJsonModule: true
}

const managers = [
  { name: "npm", command: "npm", args: ["install", "--ignore-scripts", "--no-audit", "--no-fund"] },
  { name: "pnpm", command: join(tools, "pnpm"), args: ["install", "--ignore-scripts", "--store-dir", "../store"] },
  { name: "Bun", command: "bun", args: ["install", "--ignore-scripts"] }
]

const nodes = [
  { name: "Node 22", command: join(tools, "node"), version: /^v22\./ },
  { name: "Node 24", command: "node", version: /^v24\./ }
]

const compilers = [
  { name: "TypeScript 5.9", command: join(tools, "tsc"), version: /^Version 5\.9\./ },
  { name: "TypeScript 7", command: "tsc", version: /^Version 7\./ }
]

const succeeds = async (command: string, args: ReadonlyArray<string>, cwd: string): Promise<string> => {
  const { code, output } = await run(command, args, cwd)
  assert.strictEqual(code, 0, `${command} ${args.join(" ")}\n${output}`)
  return output.trim()
}

if (!isInstalled && !isRequired) console.warn("npm ci --prefix test/consumers installs the tools of these tests")

describe.runIf(isInstalled || isRequired)("DOCS-6 programs that install the package", () => {
  requireBuild()

  let folder = ""
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "consumers-"))
    await pack(folder)
  })
  afterAll(() => rm(folder, { recursive: true, force: true }))

  it("are run and compiled by the versions in their names", async () => {
    for (const { command, version } of [...nodes, ...compilers]) {
      assert.match(await succeeds(command, ["--version"], root), version)
    }
  })

  describe.each(managers)("by $name", ({ args, command, name }) => {
    const consumer = () => join(folder, name)

    beforeAll(async () => {
      await mkdir(consumer())
      const dependencies = {
        [manifest.name]: `file:../${manifest.name}-${manifest.version}.tgz`,
        effect: manifest.devDependencies.effect
      }
      const project = { name: "consumer", private: true, type: "module", dependencies }
      await writeFile(join(consumer(), "package.json"), JSON.stringify(project))
      await writeFile(join(consumer(), "checks.mjs"), checks)
      await writeFile(join(consumer(), "main.mjs"), main)
      await writeFile(join(consumer(), "typed.ts"), typed)
      for (const [resolution, options] of Object.entries(resolutions)) {
        // the declarations are the same wherever they are: they are checked once
        const all = { ...compilerOptions, ...options, skipLibCheck: name !== "npm" }
        const config = { compilerOptions: all, include: ["typed.ts"] }
        await writeFile(join(consumer(), `${resolution}.json`), JSON.stringify(config))
      }
      await succeeds(command, args, consumer())
    })

    it.each(nodes)("$name", async ({ command }) => {
      assert.strictEqual(await succeeds(command, ["main.mjs"], consumer()), done.output)
    })

    it.each(
      compilers.flatMap((compiler) => Object.keys(resolutions).map((resolution) => ({ ...compiler, resolution })))
    )("$name, $resolution", async ({ command, resolution }) => {
      await succeeds(command, ["-p", `${resolution}.json`, "--pretty", "false"], consumer())
    })

    it("a bundle for a browser", async () => {
      const { metafile, warnings } = await build({
        stdin: { contents: main, resolveDir: consumer(), loader: "js" },
        bundle: true,
        format: "esm",
        // a `node:` import cannot be resolved for this platform, so it fails the build
        platform: "browser",
        target: "es2023",
        write: false,
        metafile: true,
        logLevel: "silent"
      })
      assert.deepStrictEqual(warnings, [])
      assert.isAbove(Object.keys(metafile.inputs).filter((path) => path.includes(`${manifest.name}/dist/`)).length, 50)
    })
  })
})
