/** How many bytes a text takes in UTF-8, given up as soon as it is more than `limit`. */
export const byteLength = (text: string, limit: number = Number.POSITIVE_INFINITY): number => {
  if (text.length > limit) return text.length
  let bytes = 0
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i)
    if (unit < 0x80) bytes += 1
    else if (unit < 0x800) bytes += 2
    // A surrogate pair takes four bytes, two for each half; a lone half is written as U+FFFD.
    else if (unit >= 0xd800 && unit <= 0xdfff && isPair(text, i)) bytes += 2
    else bytes += 3
  }
  return bytes
}

const isHigh = (unit: number): boolean => unit >= 0xd800 && unit <= 0xdbff
const isLow = (unit: number): boolean => unit >= 0xdc00 && unit <= 0xdfff

const isPair = (text: string, i: number): boolean =>
  isHigh(text.charCodeAt(i)) ? isLow(text.charCodeAt(i + 1)) : isHigh(text.charCodeAt(i - 1))

/** The offset of the first byte of the first sequence that is not UTF-8, or the length. */
export const invalidAt = (bytes: Uint8Array): number => {
  let i = 0
  while (i < bytes.length) {
    const size = sequence(bytes, i)
    if (size === 0) return i
    i += size
  }
  return i
}

/** The length of the UTF-8 sequence at `i` (Unicode, table 3-7), or 0 if there is none. */
const sequence = (bytes: Uint8Array, i: number): number => {
  const first = bytes[i] ?? 0
  const second = bytes[i + 1] ?? 0
  if (first < 0x80) return 1
  if (first >= 0xc2 && first <= 0xdf) return isTail(second) ? 2 : 0
  if (first >= 0xe0 && first <= 0xef) {
    const from = first === 0xe0 ? 0xa0 : 0x80
    const to = first === 0xed ? 0x9f : 0xbf
    return second >= from && second <= to && isTail(bytes[i + 2]) ? 3 : 0
  }
  if (first >= 0xf0 && first <= 0xf4) {
    const from = first === 0xf0 ? 0x90 : 0x80
    const to = first === 0xf4 ? 0x8f : 0xbf
    return second >= from && second <= to && isTail(bytes[i + 2]) && isTail(bytes[i + 3]) ? 4 : 0
  }
  return 0
}

const isTail = (byte: number | undefined): boolean => byte !== undefined && byte >= 0x80 && byte <= 0xbf
