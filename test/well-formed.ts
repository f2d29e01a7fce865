/** RIGHT-4: JSON as it is sent, with U+FFFD for each half of a character, also where the text of arguments has one as an escape. */
export const wellFormed = (json: unknown, key = ""): unknown => {
  if (typeof json === "string") return key === "arguments" ? wellFormedArguments(json) : json.toWellFormed()
  if (typeof json !== "object" || json === null) return json
  if (Array.isArray(json)) return json.map((item) => wellFormed(item))
  return Object.fromEntries(Object.entries(json).map(([name, value]) => [name.toWellFormed(), wellFormed(value, name)]))
}

const wellFormedArguments = (text: string): string => {
  try {
    const json: unknown = JSON.parse(text)
    const mended = JSON.stringify(wellFormed(json))
    return mended === JSON.stringify(json) ? text : mended
  } catch {
    return text.toWellFormed()
  }
}
