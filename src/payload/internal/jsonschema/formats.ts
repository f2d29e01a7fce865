import * as Result from "effect/Result"

type Check = (text: string) => boolean

const daysIn = (year: number, month: number): number =>
  month === 2
    ? year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0)
      ? 29
      : 28
    : [4, 6, 9, 11].includes(month)
      ? 30
      : 31

const date: Check = (text) => {
  const parts = /^(\d{4})-(\d{2})-(\d{2})$/.exec(text)
  if (parts === null) return false
  const [year, month, day] = [Number(parts[1]), Number(parts[2]), Number(parts[3])]
  return month >= 1 && month <= 12 && day >= 1 && day <= daysIn(year, month)
}

const time: Check = (text) => {
  const parts = /^(\d{2}):(\d{2}):(\d{2})(?:\.\d+)?(?:[zZ]|([+-])(\d{2}):(\d{2}))$/.exec(text)
  if (parts === null) return false
  const [hour, minute, second] = [Number(parts[1]), Number(parts[2]), Number(parts[3])]
  const [offsetHour, offsetMinute] = [Number(parts[5] ?? 0), Number(parts[6] ?? 0)]
  if (hour > 23 || minute > 59 || second > 60 || offsetHour > 23 || offsetMinute > 59) return false
  if (second < 60) return true
  const offset = (offsetHour * 60 + offsetMinute) * (parts[4] === "-" ? -1 : 1)
  const utc = (hour * 60 + minute - offset + 2 * 1440) % 1440
  return utc === 1439
}

const dateTime: Check = (text) => /^[tT]$/.test(text[10] ?? "") && date(text.slice(0, 10)) && time(text.slice(11))

const duration: Check = (text) =>
  text.length <= 256 &&
  /^P(?:\d+W|(?=[\dT])(?:\d+Y(?:\d+M(?:\d+D)?)?|\d+M(?:\d+D)?|\d+D)?(?:T(?=\d)(?:\d+H(?:\d+M(?:\d+S)?)?|\d+M(?:\d+S)?|\d+S))?)$/.test(
    text
  )

const label = /^[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?$/

/** The encoded form of a label in another script is decoded and checked by the platform's URL parser. */
const encodedLabel: Check = (part) => /^xn--/i.test(part) && URL.canParse(`http://${part}/`)

const hostname: Check = (text) =>
  text.length <= 253 &&
  text.split(".").every((part) => label.test(part) && (part.slice(2, 4) !== "--" || encodedLabel(part)))

const ipv4: Check = (text) =>
  text.length <= 15 && /^(?:(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)(?:\.(?!$)|$)){4}$/.test(text)

const ipv6: Check = (text) => {
  if (text.length > 45 || !/^[0-9a-fA-F:.]+$/.test(text)) return false
  const halves = text.split("::")
  if (halves.length > 2) return false
  const groups = halves.map((half) => (half === "" ? [] : half.split(":")))
  const all = groups.flat()
  const last = all.at(-1)
  const embedded = last !== undefined && last.includes(".")
  if (embedded && (!ipv4(last) || groups.at(-1)?.length === 0)) return false
  const hex = embedded ? all.slice(0, -1) : all
  if (!hex.every((group) => /^[0-9a-fA-F]{1,4}$/.test(group))) return false
  const count = hex.length + (embedded ? 2 : 0)
  return halves.length === 2 ? count <= 7 : count === 8
}

const email: Check = (text) => {
  if (text.length > 320) return false
  const at = text.lastIndexOf("@")
  const local = text.slice(0, at)
  const domain = text.slice(at + 1)
  if (at < 1 || local.length > 64) return false
  const quoted = /^"(?:[\x20\x21\x23-\x5b\x5d-\x7e]|\\[\x20-\x7e])*"$/.test(local)
  if (!quoted && !local.split(".").every((atom) => /^[a-zA-Z0-9!#$%&'*+/=?^_`{|}~-]+$/.test(atom))) return false
  if (domain.startsWith("[") && domain.endsWith("]")) {
    const address = domain.slice(1, -1)
    return /^ipv6:/i.test(address) ? ipv6(address.slice(5)) : ipv4(address)
  }
  return hostname(domain)
}

const uuid: Check = (text) => /^[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}$/.test(text)

/** Only these characters and well-formed percent escapes. */
const made = (text: string, allowed: RegExp): boolean => {
  for (let i = 0; i < text.length; i++) {
    const char = text[i] ?? ""
    if (char === "%") {
      if (!/^[0-9a-fA-F]{2}$/.test(text.slice(i + 1, i + 3))) return false
      i += 2
    } else if (!allowed.test(char)) return false
  }
  return true
}

const userInfo = /[A-Za-z0-9._~!$&'()*+,;=:-]/
const regName = /[A-Za-z0-9._~!$&'()*+,;=-]/
const pathChar = /[A-Za-z0-9._~!$&'()*+,;=:@/-]/
const queryChar = /[A-Za-z0-9._~!$&'()*+,;=:@/?-]/

const authority: Check = (text) => {
  const at = text.lastIndexOf("@")
  if (at >= 0 && !made(text.slice(0, at), userInfo)) return false
  const host = text.slice(at + 1)
  if (host.startsWith("[")) {
    const end = host.indexOf("]")
    const literal = host.slice(1, Math.max(end, 1))
    if (end < 0 || !/^(?::\d*)?$/.test(host.slice(end + 1))) return false
    return ipv6(literal) || /^[vV][0-9a-fA-F]+\.[A-Za-z0-9._~!$&'()*+,;=:-]+$/.test(literal)
  }
  const colon = host.indexOf(":")
  if (colon >= 0 && !/^\d*$/.test(host.slice(colon + 1))) return false
  return made(colon >= 0 ? host.slice(0, colon) : host, regName)
}

/** RFC 3986, one pass over the parts. */
const uriReference =
  (absolute: boolean): Check =>
  (text) => {
    const scheme = /^[A-Za-z][A-Za-z0-9+.-]{0,63}:/.exec(text)?.[0]
    if (absolute && scheme === undefined) return false
    let rest = scheme === undefined ? text : text.slice(scheme.length)
    const hash = rest.indexOf("#")
    if (hash >= 0) {
      if (!made(rest.slice(hash + 1), queryChar)) return false
      rest = rest.slice(0, hash)
    }
    const question = rest.indexOf("?")
    if (question >= 0) {
      if (!made(rest.slice(question + 1), queryChar)) return false
      rest = rest.slice(0, question)
    }
    if (rest.startsWith("//")) {
      const slash = rest.indexOf("/", 2)
      if (!authority(slash < 0 ? rest.slice(2) : rest.slice(2, slash))) return false
      rest = slash < 0 ? "" : rest.slice(slash)
    } else if (scheme === undefined && /^[^/]*:/.test(rest)) return false
    return made(rest, pathChar)
  }

const privateUse = /[\u{E000}-\u{F8FF}\u{F0000}-\u{FFFFD}\u{100000}-\u{10FFFD}]/gu
const beyondAscii = /[\u{A0}-\u{D7FF}\u{F900}-\u{FDCF}\u{FDF0}-\u{FFEF}\u{10000}-\u{EFFFD}]/gu

/** RFC 3987: as the URI, with letters of all scripts, and private ones in the query. */
const iriReference = (absolute: boolean): Check => {
  const check = uriReference(absolute)
  return (text) => check(text.replace(beyondAscii, "a").replace(/\?[^#]*/, (query) => query.replace(privateUse, "a")))
}

const variable = /^(?:[A-Za-z0-9_]|%[0-9a-fA-F]{2})(?:\.?(?:[A-Za-z0-9_]|%[0-9a-fA-F]{2}))*(?::[1-9][0-9]{0,3}|\*)?$/

const uriTemplate: Check = (text) => {
  let open = -1
  let literal = ""
  for (let i = 0; i < text.length; i++) {
    const char = text[i] ?? ""
    if (open >= 0) {
      if (char === "{") return false
      if (char !== "}") continue
      const expression = text.slice(open + 1, i).replace(/^[+#./;?&=,!@|]/, "")
      if (expression.length > 1024 || !expression.split(",").every((part) => variable.test(part))) return false
      open = -1
    } else if (char === "{") open = i
    else literal += char
  }
  // oxlint-disable-next-line no-control-regex -- RFC 6570 forbids exactly these
  return open < 0 && made(literal, /[^\x00-\x20\x7f"<>%\\^`{|}]/)
}

const jsonPointer: Check = (text) => (text === "" || text.startsWith("/")) && !/~(?![01])/.test(text)

const relativeJsonPointer: Check = (text) => {
  const prefix = /^(?:0|[1-9][0-9]{0,15})/.exec(text)?.[0]
  if (prefix === undefined) return false
  const rest = text.slice(prefix.length)
  return rest === "#" || jsonPointer(rest)
}

const regex: Check = (text) => Result.isSuccess(Result.try(() => new RegExp(text, "u")))

const checks: ReadonlyMap<string, Check> = new Map<string, Check>([
  ["date-time", dateTime],
  ["date", date],
  ["time", time],
  ["duration", duration],
  ["email", email],
  ["hostname", hostname],
  ["ipv4", ipv4],
  ["ipv6", ipv6],
  ["uri", uriReference(true)],
  ["uri-reference", uriReference(false)],
  ["iri", iriReference(true)],
  ["iri-reference", iriReference(false)],
  ["uri-template", uriTemplate],
  ["uuid", uuid],
  ["json-pointer", jsonPointer],
  ["relative-json-pointer", relativeJsonPointer],
  ["regex", regex]
])

/**
 * The formats that are checked. `idn-email` and `idn-hostname` need the tables
 * of IDNA and are refused like any unknown name.
 */
export const formats: ReadonlyArray<string> = [...checks.keys()]

/** The check of a format; `undefined` for an unknown name. Every check is linear. */
export const formatCheck = (name: string): Check | undefined => checks.get(name)
