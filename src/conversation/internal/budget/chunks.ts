const size = 2048
const lookBack = 256

/**
 * Cuts long text at white space, and where there is none within reach, anywhere but
 * inside a character: the cost of an encoder grows with the square of a run.
 */
export const chunks = (text: string): ReadonlyArray<string> => {
  if (text.length <= size) return [text]
  const pieces: Array<string> = []
  let start = 0
  while (text.length - start > size) {
    const end = cutBefore(text, start + size)
    pieces.push(text.slice(start, end))
    start = end
  }
  pieces.push(text.slice(start))
  return pieces
}

const cutBefore = (text: string, end: number): number => {
  for (let index = end; index > end - lookBack; index--) {
    if (isSpace(text.charCodeAt(index)) && !isSpace(text.charCodeAt(index - 1))) return index
  }
  return isLowSurrogate(text.charCodeAt(end)) ? end - 1 : end
}

const isSpace = (code: number): boolean => code === 32 || (code >= 9 && code <= 13)

const isLowSurrogate = (code: number): boolean => code >= 0xdc00 && code < 0xe000
