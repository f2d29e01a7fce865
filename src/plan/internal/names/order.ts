/** The order of names and texts by code points: JavaScript's own is by UTF-16 code units. */
export const byCodePoint = (left: string, right: string): -1 | 0 | 1 => {
  const a = left[Symbol.iterator]()
  const b = right[Symbol.iterator]()
  for (;;) {
    const x = a.next()
    const y = b.next()
    if (x.done === true) return y.done === true ? 0 : -1
    if (y.done === true) return 1
    const difference = (x.value.codePointAt(0) ?? 0) - (y.value.codePointAt(0) ?? 0)
    if (difference !== 0) return difference < 0 ? -1 : 1
  }
}
