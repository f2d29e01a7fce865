/** How messages list names, and guess which one was meant. */
import * as Names from "../../../payload/Names.ts"

/** How many names a message lists. */
const shown = 20

/** Names in quotes; those that are too many are counted. */
export const list = (names: ReadonlyArray<string>): string => {
  const listed = names.slice(0, shown).map(Names.quote).join(", ")
  return names.length > shown ? `${listed} and ${names.length - shown} more` : listed
}

/** A sentence after others, or nothing. */
export const didYouMean = (suggestion: string | undefined): string =>
  suggestion === undefined ? "" : ` Did you mean ${Names.quote(suggestion)}?`
