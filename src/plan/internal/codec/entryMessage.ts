/** What is said about names that a registry does not have. */
import * as Names from "../../../payload/Names.ts"
import type { Entry } from "../../RegistryIncomplete.ts"
import { list } from "../names/words.ts"

/** How many entries a message spells out. */
const shown = 20

const line = ({ available, expected, path, problem, registry, step, suggestion }: Entry): string => {
  const where = step === undefined ? path : `${path} (step ${Names.quote(step)})`
  const has = available.length === 0 ? `no ${registry} were given` : `given are ${list(available)}`
  const hint = suggestion === undefined ? "" : `; did you mean ${Names.quote(suggestion)}?`
  return `- ${where}: expected ${expected}, found ${problem}; ${has}${hint}`
}

export const message = (plan: string, entries: ReadonlyArray<Entry>): string => {
  const lines = entries.slice(0, shown).map(line)
  const rest = entries.length > shown ? [`- and ${entries.length - shown} more`] : []
  return [
    `Plan ${Names.quote(plan)}: expected a registry with everything the plan names, found ${entries.length === 1 ? "one name" : `${entries.length} names`} it cannot use:`,
    ...lines,
    ...rest
  ].join("\n")
}
