/**
 * The words that our texts avoid, for the rule `house/plain-english` and for `npm run lint:english`.
 *
 * A reader stops at each of them: they hide who does what (DESIGN 8.5). Code between backticks, fenced examples, links
 * and quotations are not looked at.
 */

export interface Finding {
  /** Where in the text, from 0. */
  readonly offset: number
  readonly word: string
  readonly hint: string
}

type Rules = ReadonlyArray<readonly [words: RegExp, hint: string]>

const rules: Rules = [
  [/\b(tell|tells|told|telling)\b/gi, "emit, report, return or name"],
  [/\b(say|says|said|saying)\b/gi, "state, report, name or specify"],
  [/\b(give|gives|gave|giving)\b(?! up\b)/gi, "return, pass, supply or provide"],
  [/\b(stand|stands|stood|standing)\b/gi, "is, holds, appears or represents"],
  [/\b(go|goes|went|going|gone) on\b/gi, "continue or resume"],
  [/\b(some|no|any|every)body\b|\bwhoever\b/gi, "name who it is: the caller, the model, no tool"],
  [/\b(can|cannot|could|to|not) be had\b|\bis to be had\b/gi, "is available, is unavailable"]
]

/** Words in the place of a noun: a reader has to look back for what they are about (DESIGN 8.8). */
const pronouns: Rules = [
  [/\bones?\s+(that|which|who|whose)\b/gi, "repeat the noun: a message that, the name of the tool"],
  [/\b(that\s+of|those\s+(of|that|which|in|with|from)|of\s+which|such\s+(an?|ones?))\b/gi, "repeat the noun"]
]

/** In a message, which is read alone: the noun is in another part of the message, or nowhere. */
const messagePronouns: Rules = [
  [
    /\b(an?(\s+[a-z]+)?|another|other|got|found|than|without|(its|their)\s+own|the\s+same)\s+ones?\b(?!\s+(at|by)\b)/gi,
    "repeat the noun"
  ]
]

/** A comment that begins with a clause and never gets to its subject. Questions and `Where a, b.` are sentences. */
const headless = /^\s*(What|Whether|Who|Whom|Whose|How|Where(?![^.]*,))\b(?![^.]*\?)/i

const spaces = (text: string): string => text.replace(/[^\n]/g, " ")

/** Code and quotations are words of a sentence, so that a clause after them is not its beginning. */
const marks = (text: string): string => text.replace(/[^\n]/g, "~")

/** The text without what is not prose; offsets and lines stay the same. */
const prose = (text: string): string =>
  text
    .replace(/^([ \t]*`{3,})[^`\n]*\n[^]*?^\1`*[ \t]*$/gm, spaces)
    .replace(/<!--[^]*?-->/g, spaces)
    .replace(/`[^`]*`/g, marks)
    .replace(/\{@link [^}]*\}/g, marks)
    .replace(/\bhttps?:\/\/\S+/g, marks)
    .replace(/"[^"\n]*"/g, marks)

const findings = (text: string, all: Rules): ReadonlyArray<Finding> => {
  const plain = prose(text)
  return all
    .flatMap(([words, hint]) =>
      [...plain.matchAll(words)].map((match) => ({ offset: match.index, word: match[0], hint }))
    )
    .toSorted((a, b) => a.offset - b.offset)
}

/** The findings in a short text: a message, the name of a test. */
export const inText = (text: string): ReadonlyArray<Finding> => findings(text, rules)

/** The findings in a message of the library: also words in the place of a noun. */
export const inMessage = (text: string): ReadonlyArray<Finding> =>
  findings(text, [...rules, ...pronouns, ...messagePronouns])

/** The findings in a page: also words in the place of a noun. */
export const inPage = (text: string): ReadonlyArray<Finding> => findings(text, [...rules, ...pronouns])

/** The findings in the text of a comment, without its delimiters: also a beginning that is no sentence. */
export const inComment = (value: string): ReadonlyArray<Finding> => {
  // the asterisks at the left of a doc comment
  const text = value.replace(/^\*|^([ \t]*)\*/gm, (found) => spaces(found))
  const opening = headless.exec(prose(text))?.[1]
  const found = inPage(text)
  if (opening === undefined) return found
  return [{ offset: text.indexOf(opening), word: `${opening} ...`, hint: "begin with the subject" }, ...found]
}

/** Tests if a string of the source is a text for people: it has words with a space between them. */
export const isProse = (text: string): boolean => /[a-z]+[,:]? [a-z]+/i.test(text)

/** Functions of the test framework whose first argument is a name. */
export const namesTest = (callee: string): boolean => /^(it|test\w*|describe)\b/.test(callee)
