/**
 * `npm run example <name> [arguments]` builds the package and runs `examples/<name>/main.ts`.
 */
import { spawnSync } from "node:child_process"
import { existsSync, readdirSync } from "node:fs"
import { fileURLToPath } from "node:url"

const examples = fileURLToPath(new URL("../examples", import.meta.url))
const main = (name: string) => `${examples}/${name}/main.ts`

const names = (existsSync(examples) ? readdirSync(examples) : []).filter((name) => existsSync(main(name)))
const [name, ...args] = process.argv.slice(2)

if (name === undefined || !names.includes(name)) {
  const problem = name === undefined ? "Which example?" : `There is no example "${name}".`
  process.stderr.write(`${problem} npm run example <name>, where <name> is one of: ${names.toSorted().join(", ")}\n`)
  process.exitCode = 1
} else {
  process.exitCode = spawnSync(process.execPath, [main(name), ...args], { stdio: "inherit" }).status ?? 1
}
