/**
 * `npm run pictures` draws the plans of the examples into docs/plans.md: between `<!-- picture: <example> -->` and
 * `<!-- end -->` it writes the result of `Picture.toMermaid` for the plan that `examples/<example>/plan.ts` exports.
 * With `--check` nothing is written, and pictures that are out of date are an error.
 */
import { readFileSync, writeFileSync } from "node:fs"
import { fileURLToPath } from "node:url"
import { Effect } from "effect"
import { Picture, type Plan, type PlanInvalid } from "effect-emissary/plan"

const file = fileURLToPath(new URL("../docs/plans.md", import.meta.url))

interface Example {
  readonly plan: Effect.Effect<Plan.Plan<unknown, unknown>, PlanInvalid.PlanInvalid>
}

const draw = async (example: string): Promise<string> => {
  const path = new URL(`../examples/${example}/plan.ts`, import.meta.url).href
  const { plan }: Example = await import(path)
  return Picture.toMermaid(await Effect.runPromise(plan), { nested: true })
}

const picture = /<!-- picture: (\S+) -->\n[^]*?<!-- end -->/g

const drawn = async (page: string): Promise<string> => {
  const names = Array.from(page.matchAll(picture), ([, name = ""]) => name)
  const pictures = new Map(await Promise.all(names.map(async (name) => [name, await draw(name)] as const)))
  return page.replaceAll(picture, (_, name: string) => {
    const text = pictures.get(name)?.trimEnd() ?? ""
    return `<!-- picture: ${name} -->\n\n\`\`\`mermaid\n${text}\n\`\`\`\n\n<!-- end -->`
  })
}

const page = readFileSync(file, "utf8")
const fresh = await drawn(page)

if (fresh === page) {
  process.stdout.write("docs/plans.md is up to date.\n")
} else if (process.argv.includes("--check")) {
  process.stderr.write("docs/plans.md is out of date: npm run pictures\n")
  process.exitCode = 1
} else {
  writeFileSync(file, fresh)
  process.stdout.write("docs/plans.md is drawn.\n")
}
