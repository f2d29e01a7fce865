/**
 * Runs `npm test`: the short static checks side by side, then the tests, with the long checks beside them. The first failure
 * ends it, after what runs beside it has reported. Arguments go to vitest: `npm test -- test/payload`.
 *
 * It passes on a busy machine, too (MEND-1): no test waits for a time of the machine, and `test/package/house-figures.test.ts` holds
 * the limits of what hangs.
 */
import { spawn } from "node:child_process"
import { existsSync, readFileSync } from "node:fs"

const manifest: { readonly scripts: Record<string, string> } = JSON.parse(
  readFileSync(new URL("../package.json", import.meta.url), "utf8")
)

interface Outcome {
  readonly name: string
  readonly code: number
  readonly seconds: string
  readonly output: string
}

// npm has put node_modules/.bin in front of PATH; a script of package.json runs here without a second npm around it
const run = (name: string, stdio: "pipe" | "inherit", args: ReadonlyArray<string> = []): Promise<Outcome> =>
  new Promise((resolve, reject) => {
    const command = manifest.scripts[name]
    if (command === undefined) throw new Error(`package.json has no script "${name}"`)
    const start = performance.now()
    const child = spawn([command, ...args].join(" "), { shell: true, stdio: ["ignore", stdio, stdio] })
    let output = ""
    const collect = (chunk: Buffer) => {
      output += chunk.toString()
    }
    child.stdout?.on("data", collect)
    child.stderr?.on("data", collect)
    child.on("error", reject)
    child.on("close", (code) => {
      resolve({ name, code: code ?? 1, seconds: ((performance.now() - start) / 1000).toFixed(1), output })
    })
  })

const say = ({ code, name, output, seconds }: Outcome): void => {
  const command = code === 0 ? "" : `  (npm run ${name})`
  process.stdout.write(`${code === 0 ? "ok  " : "FAIL"}  ${name.padEnd(14)} ${seconds.padStart(5)} s${command}\n`)
  if (code !== 0) process.stdout.write(`${output.trimEnd()}\n\n`)
}

process.stdout.write(`node ${process.version}\n`)
const check = async (name: string): Promise<Outcome> => {
  const outcome = await run(name, "pipe")
  say(outcome)
  return outcome
}
const checks = await Promise.all(["format:check", "lint", "prepack"].map(check))
const failed = checks.filter(({ code }) => code !== 0).map(({ name }) => name)
if (failed.length > 0) {
  process.stdout.write(`npm test: ${failed.join(", ")} failed, the tests were not run\n`)
  process.exitCode = 1
} else {
  // the long checks run beside the tests, which wait a part of their time
  const [tests, ...beside] = await Promise.all([
    run("vitest", "inherit", process.argv.slice(2)),
    check("check"),
    check("diagnostics"),
    // a package of its own, whose types are there where it is installed
    ...(existsSync(new URL("../test/screen/node_modules", import.meta.url)) ? [check("check:screen")] : [])
  ])
  const failed = beside.filter(({ code }) => code !== 0)
  if (failed.length > 0) process.stdout.write(`npm test: ${failed.map(({ name }) => name).join(", ")} failed\n`)
  process.exitCode = tests.code || failed[0]?.code || 0
}
