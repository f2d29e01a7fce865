/**
 * Writes the golden sessions of today's code to `test/golden/sessions/next`: `npm run golden:sessions`, from the build. A file
 * whose layout is as it was stays as it is. `npm run golden -- --pin` copies the set for a release.
 */
import { Effect } from "effect"
import { mkdirSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { layoutOf, textOf, type Golden } from "../test/session/upgrade/golden.ts"
import { recordings } from "../test/session/upgrade/recordings.ts"
import { nextSet, readFromRoot, setOf } from "./golden.ts"
import { root } from "./sources.ts"

const layoutIn = (text: string | undefined): string | undefined => {
  if (text === undefined) return undefined
  const golden: Golden = JSON.parse(text)
  return layoutOf(golden)
}

const written: Array<string> = []
mkdirSync(join(root, nextSet), { recursive: true })
for (const { name, record } of recordings) {
  const path = `${nextSet}/${name}.json`
  const golden = await Effect.runPromise(record)
  if (layoutIn(readFromRoot(path)) === layoutOf(golden)) continue
  writeFileSync(join(root, path), textOf(golden))
  written.push(path)
}
const paths = new Set(recordings.map(({ name }) => `${nextSet}/${name}.json`))
const gone = setOf("next").filter((path) => !paths.has(path))
for (const path of gone) rmSync(join(root, path))
const lines = [...written.map((path) => `wrote ${path}`), ...gone.map((path) => `removed ${path}`)]
process.stdout.write(lines.length === 0 ? "the layouts are as they were\n" : `${lines.join("\n")}\n`)
