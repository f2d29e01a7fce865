/**
 * Writes the modules of `dist` together into a few files, in `chunks`, for programs that load the package without a bundler:
 * most of the time of an import is the loader's, for each file and each import in one. Each public module has a file of its own there
 * that exports from them, so a service is one object whatever the entry. Bundlers read `dist`, by the condition `module`.
 * `npm run build` runs it after `annotate.ts`.
 */
import { existsSync, globSync, readFileSync, rmSync } from "node:fs"
import { isAbsolute, join } from "node:path"
import { fileURLToPath } from "node:url"
import { rolldown, type Plugin } from "rolldown"

const root = fileURLToPath(new URL("..", import.meta.url))
const dist = join(root, "dist")

/**
 * The rooms whose modules are written together, with all that they import. A module belongs to the first room that loads it. What
 * is loaded later, by `import()`, is in none: with a session a program would load the fleet.
 */
const together = ["agent", "session", "plan"]

/** The modules that the entry of each room loads, by static imports. */
const loaded = new Map<string, ReadonlySet<string>>()

const plugin: Plugin = {
  name: "chunks",
  // with the map of `dist`, so that the map of a chunk leads to the sources
  load: (id) => {
    const map = `${id}.map`
    return existsSync(map) ? { code: readFileSync(id, "utf8"), map: readFileSync(map, "utf8") } : null
  },
  buildEnd() {
    for (const room of together) {
      const ids = new Set([join(dist, room, "index.js")])
      for (const id of ids) for (const imported of this.getModuleInfo(id)?.importedIds ?? []) ids.add(imported)
      loaded.set(room, ids)
    }
  }
}

const groups = together.map((room, index) => ({
  name: room,
  priority: together.length - index,
  test: (id: string) => loaded.get(room)?.has(id) === true
}))

const entries = globSync(["index.js", "*/*.js"], { cwd: dist }).map((path) => [path.slice(0, -3), join(dist, path)])

rmSync(join(root, "chunks"), { recursive: true, force: true })
const bundle = await rolldown({
  input: Object.fromEntries(entries),
  external: (id) => !id.startsWith(".") && !isAbsolute(id),
  platform: "node",
  preserveEntrySignatures: "strict",
  plugins: [plugin]
})
await bundle.write({
  dir: join(root, "chunks"),
  entryFileNames: "[name].js",
  chunkFileNames: "chunk/[name].js",
  sourcemap: true,
  codeSplitting: { groups }
})
