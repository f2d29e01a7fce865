/** A text that is cut, with an ellipsis, where it is too long: never in the middle of a character. */
export const short = (text: string, max: number): string => {
  if (text.length <= max) return text
  const head = text.slice(0, max)
  return /[\uD800-\uDBFF]$/.test(head) ? `${head.slice(0, -1)}…` : `${head}…`
}
