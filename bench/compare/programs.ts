/**
 * Bundles a small agent of each library, and starts it in new processes: how large it is, and when its first run is over. A row that
 * is the name of a package, and no path, is imported alone.
 */
import { spawn } from "node:child_process"
import { loadavg } from "node:os"
import { fileURLToPath } from "node:url"
import { gzipSync } from "node:zlib"
import { build } from "esbuild"
import { environment, median, shuffle, summarize, type Options, type Results, type Samples } from "./harness.ts"
import type { Workload } from "./workloads.ts"

const here = (path: string): string => fileURLToPath(new URL(path, import.meta.url))

const cases = { minified: "minified", gzipped: "gzipped", start: "import and first run", load: "import" }

const shared = {
  bundle: true,
  platform: "node",
  format: "esm",
  target: "node22",
  logLevel: "silent",
  // The build that the package publishes, not its sources: the calls in it are marked as pure
  alias: { "effect-emissary": here("../../dist") },
  tsconfigRaw: {},
  define: { "process.env.NODE_ENV": '"production"' }
} as const

/** The program alone, with all libraries left to import: what `start` runs. */
const transpile = (program: string, outfile: string) =>
  build({ ...shared, entryPoints: [here(program)], packages: "external", outfile })

const bundle = async (program: string) => {
  const { outputFiles } = await build({
    ...shared,
    stdin: {
      contents: `import { main } from ${JSON.stringify(program)}\nconsole.log(await main())`,
      resolveDir: here(".")
    },
    minify: true,
    write: false
  })
  const contents = outputFiles[0]?.contents ?? new Uint8Array()
  return { minified: contents.length / 1024, gzipped: gzipSync(contents, { level: 9 }).length / 1024 }
}

const starter = `
const cpu = process.cpuUsage(), begin = performance.now()
const { main } = await import(process.argv[1])
if (main !== undefined && (await main()) !== "hello") throw new Error("wrong answer")
const { system, user } = process.cpuUsage(cpu)
console.log(JSON.stringify({ wall: performance.now() - begin, cpu: (system + user) / 1000 }))
process.exit()`

const start = (name: string): Promise<{ readonly wall: number; readonly cpu: number }> =>
  new Promise((resolve, reject) => {
    const child = spawn(process.execPath, ["--input-type=module", "--eval", starter, name], {
      cwd: here("."),
      env: environment,
      stdio: ["ignore", "pipe", "inherit"]
    })
    let output = ""
    child.stdout.on("data", (chunk: Buffer) => {
      output += chunk.toString()
    })
    child.on("close", (code) => {
      if (code === 0) resolve(JSON.parse(output.trim().split("\n").at(-1) ?? ""))
      else reject(new Error(`${name} failed`))
    })
  })

const size = (memory: number): Samples => ({ wall: [], cpu: [], memory: [memory] })

export const measurePrograms = async (workload: Workload, { rounds, rows }: Options): Promise<Results> => {
  const measured: Array<{ case: string; row: string; samples: Samples }> = []
  const started: Array<() => Promise<void>> = []
  for (const [index, row] of rows.entries()) {
    const program = workload.rows[row] ?? ""
    const isPackage = !program.startsWith("./")
    const name = isPackage ? program : here(`.generated/program${index}.js`)
    if (!isPackage) {
      const sizes = await bundle(program)
      measured.push({ case: cases.minified, row, samples: size(sizes.minified) })
      measured.push({ case: cases.gzipped, row, samples: size(sizes.gzipped) })
      await transpile(program, name)
    }
    await start(name)
    const samples = { wall: [] as Array<number>, cpu: [] as Array<number>, memory: [] }
    measured.push({ case: isPackage ? cases.load : cases.start, row, samples })
    started.push(async () => {
      const { cpu, wall } = await start(name)
      samples.cpu.push(cpu)
      samples.wall.push(wall)
    })
  }
  const loads: Array<number> = []
  for (let round = 0; round < rounds; round++) {
    for (const one of shuffle(started)) await one()
    loads.push(loadavg()[0] ?? 0)
  }
  return summarize(workload, measured, median(loads), rounds)
}
