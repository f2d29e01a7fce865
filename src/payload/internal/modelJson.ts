/** Where a bracket at `start` is closed; `-1` when it is not. Brackets inside JSON strings do not count. */
export const closing = (text: string, start: number): number => {
  let depth = 0
  let inString = false
  for (let i = start; i < text.length; i++) {
    const char = text[i]
    if (inString) {
      if (char === "\\") i++
      else if (char === '"') inString = false
    } else if (char === '"') inString = true
    else if (char === "{" || char === "[") depth++
    else if (char === "}" || char === "]") {
      depth--
      if (depth === 0) return i
    }
  }
  return -1
}

/** Whether what follows an unclosed bracket looks like the inside of JSON, cut off, rather than prose. */
export const looksCutOff = (text: string, start: number): boolean =>
  text[start] === "{"
    ? /^\{\s*"/.test(text.slice(start, start + 64))
    : /^\[\s*[[{"]/.test(text.slice(start, start + 64))

/** The next opening bracket at or after `from`; `-1` when there is none. */
export const opening = (text: string, from: number): number => {
  for (let i = from; i < text.length; i++) if (text[i] === "{" || text[i] === "[") return i
  return -1
}
