/**
 * Runs worlds with each mutant of `mutants.ts` until one goes wrong, and writes the table of `bench/WORLDS.md`. A
 * process of its own loads the code with the mutant in it, so no file changes. `noticed.json` has what is known of each mutant: a run that
 * was cut continues there.
 */
import { execFileSync, spawn } from "node:child_process"
import { createInterface } from "node:readline"
import { existsSync, readFileSync, writeFileSync } from "node:fs"
import { fileURLToPath } from "node:url"
import { type Mutant, mutants } from "./mutants.ts"

const here = (path: string) => fileURLToPath(new URL(path, import.meta.url))

/**
 * The findings about a mutant. `seeds` worlds were run, and the last of them went wrong if there is a `law`. `tests`: the file of
 * `test/session` that notices it, or "none".
 */
export interface Noticed {
  readonly seeds: number
  readonly law?: string
  readonly tests?: string
}

/** The laws of the worlds, by the texts of their problems. */
const laws: ReadonlyArray<readonly [pattern: RegExp, law: string]> = [
  [/^Stuck/, "nothing is stuck"],
  [/^Endless/, "each world ends"],
  [/^Hangs/, "each world ends"],
  [/^(?:Escaped|Differs)/, "the world is its seed"],
  [/^a (?:live )?reader of .* saw/, "readers see each event once, in order"],
  [/not the same for two readers/, "readers agree"],
  [/^events of/, "readers go on"],
  [/started twice/, "a call starts once"],
  [/never ran to its end/, "a result was worked for"],
  [/was acknowledged, and is not/, "what was acknowledged is stored"],
  [/was sent after .* acknowledged/, "messages keep their order"],
  [/^(?:the|a)(?: second)? page of \S+ (?:shows|got)/, "the screen is the log"],
  [/^the state at/, "the state is that of the model"],
  [/^the history of/, "the history is that of the model"],
  [/is listed as/, "the list is that of the model"],
  [/no client asked for/, "each event has a cause"],
  [/do not come to rest/, "sessions come to rest"],
  [/after the removal/, "nothing is left after a removal"],
  [/cannot be read/, "each session can be read"],
  [/while nobody looks/, "a process that died leaves its turn to the others"],
  [/^a look at/, "each session can be read"],
  [/^the receipt of/, "receipts name their events"],
  [/^who waits for/, "who waits for a turn has its end"],
  [/turns are stopped for/, "an edit stops the turn of its message alone"],
  [/healthy/, "nothing is lost where no process has trouble"],
  [/ fails with /, "operations fail for a reason"],
  [/a wrong answer|an answer is stored/, "an answer to a question fits, and the first one counts"],
  [/repeats itself|as LoopDetected/, "a model that repeats itself is stopped"],
  [/^\S+, \S+, \w+: /, "the log is one that the model allows"]
]

/** The law behind a problem. A problem that no law names is an error of an operation. */
export const lawOf = (problem: string): string => {
  const [first = ""] = problem.split("\n")
  return laws.find(([pattern]) => pattern.test(first))?.[1] ?? "no operation fails otherwise"
}

/** A world that shows nothing for so long hangs. */
const patience = 240_000

const homeOf = (name: string | undefined) => mutants.find((one) => one.name === name)?.home ?? "process"

/** Runs worlds from a seed on, until one goes wrong. */
export const play = (name: string | undefined, first: number, count: number, home = homeOf(name)) =>
  new Promise<{ readonly seed: number; readonly problem?: string }>((resolve, reject) => {
    const { MUTANT: _, ...env } = process.env
    const args = [
      "--no-warnings",
      "--import",
      here("mutate.ts"),
      here("noticed.ts"),
      String(first),
      String(count),
      home
    ]
    const child = spawn(process.execPath, args, {
      env: { ...env, ...(name !== undefined && { MUTANT: name }) },
      stdio: ["ignore", "pipe", "inherit"]
    })
    let last: { readonly seed: number; readonly problem?: string } = { seed: first - 1 }
    const hang = setTimeout(() => child.kill("SIGKILL"), patience)
    createInterface({ input: child.stdout }).on("line", (line) => {
      last = JSON.parse(line)
      hang.refresh()
    })
    child.on("close", (code) => {
      clearTimeout(hang)
      const isWhole = last.problem !== undefined || last.seed === first + count - 1
      if (!isWhole && code !== null) reject(new Error(`world ${last.seed + 1} ended its process with ${code}`))
      else resolve(isWhole ? last : { seed: last.seed + 1, problem: "Hangs" })
    })
  })

/** Worlds that keep the laws without a mutant. */
const good = new Set<string>()

/** A world that goes wrong without the mutant, too, shows nothing. So does a world that keeps the laws in a process of its own. */
const notice = async ({ home, name }: Mutant, { seeds: known, ...rest }: Noticed, seeds: number): Promise<Noticed> => {
  for (let first = known + 1; first <= seeds;) {
    const { problem: found, seed } = await play(name, first, seeds - first + 1)
    if (found === undefined) break
    const { problem } = await play(name, seed, 1)
    const place = `${home} ${seed}`
    if (!good.has(place) && (await play(undefined, seed, 1, home)).problem === undefined) good.add(place)
    if (good.has(place) && problem !== undefined) return { ...rest, seeds: seed, law: lawOf(problem) }
    first = seed + 1
  }
  return { ...rest, seeds }
}

/** The name of the first of these files of `test/session` that notices a mutant. */
const test = (mutant: Mutant, files: ReadonlyArray<string>) =>
  new Promise<string | undefined>((resolve) => {
    const args = [
      here("../../node_modules/vitest/vitest.mjs"),
      "run",
      "--bail",
      "1",
      "--config",
      here("mutants.vitest.ts")
    ]
    const child = spawn(process.execPath, [...args, ...files.map((name) => `test/session/${name}`)], {
      cwd: here("../.."),
      env: { ...process.env, MUTANT: mutant.name },
      stdio: ["ignore", "pipe", "pipe"]
    })
    let output = ""
    child.stdout.on("data", (data) => (output += String(data)))
    child.stderr.on("data", (data) => (output += String(data)))
    const hang = setTimeout(() => child.kill("SIGKILL"), 2 * patience)
    child.on("close", (code) => {
      clearTimeout(hang)
      const [, file] = /FAIL .*?test\/session\/([\w-]+)\.test\.ts/.exec(output) ?? []
      resolve(code === 0 ? undefined : (file ?? files[0] ?? "a test that hangs"))
    })
  })

const results = here("noticed.json")

const table = here("../../bench/WORLDS.md")

export const readResults = (): Readonly<Record<string, Noticed>> =>
  existsSync(results) ? JSON.parse(readFileSync(results, "utf8")) : {}

const title = "## Faults put into the code"

const rowOf = ({ file, function: place, mends, name, unseen }: Mutant, { law, seeds, tests = "" }: Noticed): string => {
  const what = mends === undefined ? name : `${name} (${mends})`
  const not = `no law in ${seeds} seeds${unseen === undefined ? "" : `: ${unseen}`}`
  const by = law === undefined ? `${not} | |` : `${law} | ${seeds} |`
  return `| ${what} | \`${place}\` | \`${file.replace("src/", "")}\` | ${by} ${tests} |`
}

const commitOf = () =>
  execFileSync("git", ["rev-parse", "--short", "HEAD"], { cwd: here("."), encoding: "utf8" }).trim()

export const write = (known: Readonly<Record<string, Noticed>>) => {
  const tried = mutants.flatMap((mutant) => {
    const found = known[mutant.name]
    return found === undefined ? [] : [{ mutant, found }]
  })
  writeFileSync(
    results,
    `${JSON.stringify(Object.fromEntries(tried.map(({ found, mutant }) => [mutant.name, found])), null, 2)}\n`
  )
  const noticed = tried.filter(({ found }) => found.law !== undefined).length
  const quiet = tried.filter(({ found }) => found.tests === "none").length
  const lines = [
    title,
    "",
    `\`npm run worlds -- --mutants\` puts one fault at a time into the code and runs worlds until one goes wrong. Of ${tried.length} faults ` +
      `the worlds notice ${noticed}. ${quiet} faults leave all tests of \`test/session\` green that start no process (\`none\`); where the ` +
      `column names files with "not", only these ran. A fault that no law notices says in how many worlds it ran. Commit ${commitOf()}.`,
    "",
    "| fault | function | file | noticed by the law | at seed | test/session |",
    "| --- | --- | --- | --- | --: | --- |",
    ...tried.map(({ found, mutant }) => rowOf(mutant, found))
  ]
  const before = existsSync(table) ? readFileSync(table, "utf8") : "# Worlds\n"
  const start = before.indexOf(title)
  const end = start < 0 ? -1 : before.indexOf("\n## ", start)
  const kept = start < 0 ? `${before.trimEnd()}\n\n` : before.slice(0, start)
  writeFileSync(table, `${kept}${lines.join("\n")}\n${end < 0 ? "" : before.slice(end)}`)
}

const few = 20

/** Options of the command. `only`: a part of the names. `part`: every eighth mutant from the third on, where it is `3/8`. */
export interface Options {
  readonly only: string | undefined
  readonly part: string
  readonly seeds: number
  readonly tests: boolean
  readonly minutes: number
  readonly print: (line: string) => void
}

/** Runs worlds, and with `tests` the tests, for the mutants whose results are not known. */
export const run = async (options: Options) => {
  const [part = 1, parts = 1] = options.part.split("/").map(Number)
  const begun = performance.now()
  const isOver = () => performance.now() - begun > options.minutes * 60_000
  const chosen = mutants.filter(
    ({ name }, index) => index % parts === part - 1 && (options.only === undefined || name.includes(options.only))
  )
  const knownOf = ({ name }: Mutant): Noticed => readResults()[name] ?? { seeds: 0 }
  const update = ({ name }: Mutant, found: Noticed) => write({ ...readResults(), [name]: found })
  // Most faults show early: the others take the time
  for (const seeds of [Math.min(few, options.seeds), options.seeds]) {
    for (const mutant of chosen) {
      const before = knownOf(mutant)
      const isDone = before.law !== undefined || before.seeds >= (mutant.unseen === undefined ? seeds : few)
      if (isDone || isOver()) continue
      const found = await notice(mutant, before, seeds)
      update(mutant, { ...knownOf(mutant), ...found })
      options.print(`${mutant.name}: ${found.law ?? "not noticed"}, ${found.seeds} seeds`)
    }
  }
  for (const mutant of options.tests ? chosen : []) {
    const { tests = "" } = knownOf(mutant)
    const isPart = tests.startsWith("not ")
    if ((tests !== "" && !isPart) || isOver()) continue
    const found = (isPart ? undefined : await test(mutant, mutant.tests)) ?? (await test(mutant, [""])) ?? "none"
    update(mutant, { ...knownOf(mutant), tests: found })
    options.print(`${mutant.name}: test/session ${found}`)
  }
}
