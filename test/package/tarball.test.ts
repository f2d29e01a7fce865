import { assert, beforeAll, describe, it } from "@effect/vitest"
import { build } from "esbuild"
import { globSync, readFileSync } from "node:fs"
import { mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { dirname, join, posix } from "node:path"
import { afterAll } from "vitest"
import manifest from "../../package.json" with { type: "json" }
import { collect } from "../../scripts/doc-examples.ts"
import { pack, resolutions, specifierOf, subpaths } from "./packed.ts"
import { requireBuild, root, run } from "./run.ts"

/** A project that has the tarball installed, and of everything else only what the package declares. */
const install = async (folder: string, tarball: string): Promise<string> => {
  const consumer = join(folder, "consumer")
  const modules = join(consumer, "node_modules")
  const target = join(modules, manifest.name)
  await mkdir(target, { recursive: true })
  await writeFile(join(consumer, "package.json"), JSON.stringify({ name: "consumer", type: "module", private: true }))
  const { code, output } = await run("tar", ["-xzf", tarball, "-C", target, "--strip-components", "1"])
  assert.strictEqual(code, 0, output)
  for (const name of Object.keys({ ...manifest.dependencies, ...manifest.peerDependencies })) {
    await mkdir(dirname(join(modules, name)), { recursive: true })
    await symlink(join(root, "node_modules", name), join(modules, name))
  }
  return consumer
}

/** Everything that a module declares at its top level, exported. */
const withExports = (text: string): string =>
  `${text.replaceAll(/^(?=(?:async )?(?:const|let|class|function|interface|type) )/gm, "export ")}\nexport {}\n`

/**
 * Writes the examples of the pages and of `examples` as modules of a library. Tests are left out, and so are examples with a client of the AI SDK
 * whose own declarations do not compile as strictly as this library does.
 */
const writeLibrary = async (folder: string) => {
  const pages = collect().filter(
    ({ code, origin }) =>
      (origin === "README.md" || origin.startsWith("docs/")) &&
      !code.some((line) => line.includes(`from "@ai-sdk/`) || line.includes(`from "@effect/vitest"`))
  )
  const programs = globSync("examples/**/*.ts", { cwd: root }).filter((path) => !path.endsWith(".d.ts"))
  const modules = [
    ...pages.map(({ code, line, origin }) => [`${origin}.${line}.ts`, code.join("\n")] as const),
    ...programs.map((path) => [path, readFileSync(join(root, path), "utf8")] as const)
  ]
  for (const [path, text] of modules) {
    const target = join(folder, "src", path)
    await mkdir(dirname(target), { recursive: true })
    await writeFile(target, withExports(text))
  }
  for (const name of ["@effect/platform-node", "@effect/sql-pg", "@types", "esbuild", "hono"]) {
    await mkdir(dirname(join(folder, "node_modules", name)), { recursive: true })
    await symlink(join(root, "node_modules", name), join(folder, "node_modules", name))
  }
  return modules.length
}

const libraryOptions = {
  strict: true,
  exactOptionalPropertyTypes: true,
  target: "ES2023",
  lib: ["ES2023", "DOM", "DOM.Iterable"],
  types: ["node"],
  declaration: true,
  emitDeclarationOnly: true,
  allowImportingTsExtensions: true,
  // the declarations of the package are checked by the test of a strict project
  skipLibCheck: true,
  rootDir: "src"
}

describe("PKG-1 the published package", () => {
  let folder: string
  let tarball: string
  let consumer: string
  let files: ReadonlyArray<string>

  requireBuild()
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), `${manifest.name}-`))
    tarball = await pack(folder)
    consumer = await install(folder, tarball)
    const entries = await readdir(join(consumer, "node_modules", manifest.name), {
      recursive: true,
      withFileTypes: true
    })
    const prefix = join(consumer, "node_modules", manifest.name)
    files = entries
      .filter((entry) => entry.isFile())
      .map((entry) => join(entry.parentPath, entry.name).slice(prefix.length + 1))
  })

  afterAll(() => rm(folder, { recursive: true, force: true }))

  it("holds only what users need", () => {
    const expected =
      /^(browser\/sessions\.(js|d\.ts)|dist\/.+\.(js|d\.ts|d\.ts\.map)|chunks\/.+\.(js|js\.map)|src\/.+\.ts|package\.json|docs\/.+\.md|skills\/[\w-]+\/SKILL\.md|template\/.+|schemas\/.+\.schema\.json|README\.md|LICENSE|CHANGELOG\.md)$/
    const strange = files.filter((file) => !expected.test(file) || /^(?!template\/).*\.(test|types)\./.test(file))
    assert.deepStrictEqual(strange, [])
    for (const file of [
      "README.md",
      "LICENSE",
      "CHANGELOG.md",
      "docs/agents.md",
      "docs/plans.md",
      "schemas/agent-2.schema.json",
      "dist/index.js",
      "dist/index.d.ts",
      "chunks/index.js",
      "src/index.ts"
    ]) {
      assert.include(files, file)
    }
  })

  it("holds every source its maps name", async () => {
    const maps = files.filter((file) => file.endsWith(".map"))
    assert.isNotEmpty(maps)
    for (const file of maps) {
      const map: { readonly sources: ReadonlyArray<string> } = JSON.parse(
        await readFile(join(consumer, "node_modules", manifest.name, file), "utf8")
      )
      for (const source of map.sources) assert.include(files, posix.join(posix.dirname(file), source), file)
    }
  })

  it("DOCS-6 holds no map that no file names", async () => {
    for (const map of files.filter((file) => file.endsWith(".map"))) {
      const text = await readFile(join(consumer, "node_modules", manifest.name, map.slice(0, -".map".length)), "utf8")
      assert.isTrue(text.trimEnd().endsWith(`sourceMappingURL=${posix.basename(map)}`), map)
    }
  })

  it("satisfies publint", async () => {
    const { code, output } = await run("publint", ["--strict", tarball])
    assert.strictEqual(code, 0, output)
  })

  it("satisfies arethetypeswrong", async () => {
    const { code, output } = await run("attw", [tarball, "--profile", "esm-only", "--no-color", "--no-emoji"])
    assert.strictEqual(code, 0, output)
  })

  it("loads by every subpath in plain Node", async () => {
    // `require` of an ES module fails if it, or anything it imports, awaits at top level
    const script = subpaths
      .map(specifierOf)
      .map(
        (name) => `require(${JSON.stringify(name)})
        const module = await import(${JSON.stringify(name)})
        if (Object.keys(module).length === 0) throw new Error("nothing exported by ${name}")`
      )
      .map((body) => `{ ${body} }`)
    // declarations of users name single modules; what is internal stays closed
    const closed = `import("${manifest.name}/agent/internal/agentRun").then(() => { throw new Error("open") }, () => {})`
    script.push(`await import("${manifest.name}/agent/AgentError")`, `await ${closed}`)
    await writeFile(
      join(consumer, "load.mjs"),
      [`import { createRequire } from "node:module"`, "const require = createRequire(import.meta.url)", ...script].join(
        "\n"
      )
    )
    const { code, output } = await run("node", ["load.mjs"], consumer)
    assert.strictEqual(code, 0, output)
    assert.strictEqual(output, "")
  })

  it("has declarations that a strict project accepts", async () => {
    const lines = subpaths.map((subpath, index) => `export * as m${index} from "${specifierOf(subpath)}"`)
    await writeFile(join(consumer, "consumer.ts"), lines.join("\n"))
    const options = ["--strict", "--exactOptionalPropertyTypes", "--noEmit", "--skipLibCheck", "false", "--types", ""]
    const modules = ["--module", "NodeNext", "--target", "ES2023", "--lib", "ES2023,DOM,DOM.Iterable"]
    const { code, output } = await run("tsc", ["consumer.ts", ...options, ...modules, "--ignoreConfig"], consumer)
    assert.strictEqual(code, 0, output)
  })

  it("SOUND-8 compiles to declarations that name only what it exports", async () => {
    const library = await install(join(folder, "library"), tarball)
    const count = await writeLibrary(library)
    const compiled = Object.entries(resolutions).map(async ([name, resolution]) => {
      const compilerOptions = { ...libraryOptions, ...resolution, outDir: name }
      await writeFile(join(library, `${name}.json`), JSON.stringify({ compilerOptions, include: ["src"] }))
      const { code, output } = await run("tsc", ["-p", `${name}.json`, "--pretty", "false"], library)
      assert.strictEqual(code, 0, output)
      const declarations = globSync("**/*.d.ts", { cwd: join(library, name) })
      assert.lengthOf(declarations, count)
      const imports = declarations.flatMap((file) =>
        Array.from(
          readFileSync(join(library, name, file), "utf8").matchAll(/(?:from |import\()"([^"]+)"/g),
          ([, specifier = ""]) => ({ file, specifier })
        )
      )
      const hidden = /node_modules|^effect-emissary\/.*\b(internal|wire)\b|^\.\..*\bdist\b/
      assert.deepStrictEqual(
        imports.filter(({ specifier }) => hidden.test(specifier)),
        []
      )
      assert.isAbove(imports.filter(({ specifier }) => specifier.startsWith(`${manifest.name}/`)).length, 20)
    })
    await Promise.all(compiled)
  })

  it("bundles each subpath but node for the browser, without a barrel of effect", async () => {
    const entries = subpaths.filter((subpath) => subpath !== "./node")
    // one build reads each module once
    const { metafile } = await build({
      entryPoints: entries.map((subpath) => ({ in: specifierOf(subpath), out: subpath })),
      absWorkingDir: consumer,
      bundle: true,
      format: "esm",
      // a `node:` import cannot be resolved for this platform, so it fails the build
      platform: "browser",
      target: "es2023",
      outdir: "bundled",
      write: false,
      metafile: true,
      logLevel: "silent"
    })
    assert.lengthOf(Object.keys(metafile.outputs), entries.length)
    const external = Object.values(metafile.inputs).flatMap(({ imports }) => imports.filter((found) => found.external))
    assert.deepStrictEqual(external, [])
    const barrel = /node_modules\/effect\/dist\/([a-z-]+\/)?index\.js$/
    assert.deepStrictEqual(
      Object.keys(metafile.inputs).filter((input) => barrel.test(input)),
      []
    )
  })
})
