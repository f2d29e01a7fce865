/**
 * Completes package-lock.json with the platform packages of other machines.
 *
 * `npm install` leaves an optional platform package out of the lockfile when the registry it talks to does not
 * carry it, and `npm ci` then refuses the lockfile on every machine. The exact version is in
 * `optionalDependencies` of the parent, and the platform in the package's name, so the entry can be written here.
 * Run it after each `npm install`, with the folder of a package of its own: `npm run lockfile -- test/consumers`.
 */
import { readFileSync, writeFileSync } from "node:fs"

interface Entry {
  version?: string
  cpu?: Array<string>
  dev?: boolean
  libc?: Array<string>
  optional?: boolean
  os?: Array<string>
  optionalDependencies?: Record<string, string>
}

const path = new URL(`../${process.argv[2] ?? "."}/package-lock.json`, import.meta.url)
const lock: { packages: Record<string, Entry> } = JSON.parse(readFileSync(path, "utf8"))

const systems = new Set(["aix", "android", "darwin", "freebsd", "linux", "netbsd", "openbsd", "openharmony", "win32"])

/** Words for a system or a processor that npm has another name for. */
const aliases: Readonly<Record<string, string>> = { "64": "x64", aarch64: "arm64", windows: "win32" }

/** `@oxlint/binding-linux-arm64-musl` to `{ os: ["linux"], cpu: ["arm64"], libc: ["musl"] }` */
const platform = (name: string) => {
  const words = name.split(/[/.-]/).map((word) => aliases[word] ?? word)
  const at = words.findIndex((word) => systems.has(word))
  const [os, cpu, abi] = words.slice(at)
  if (at === -1 || os === undefined || cpu === undefined) return undefined
  const libc = abi?.startsWith("musl") ? ["musl"] : abi?.startsWith("gnu") || abi === "glibc" ? ["glibc"] : undefined
  return { cpu: [cpu], libc, os: [os] }
}

const added: Array<string> = []
for (const parent of Object.values(lock.packages)) {
  for (const [name, version] of Object.entries(parent.optionalDependencies ?? {})) {
    const key = `node_modules/${name}`
    const found = platform(name)
    if (key in lock.packages || found === undefined || !/^\d/.test(version)) continue
    const { cpu, libc, os } = found
    lock.packages[key] = { version, cpu, dev: true, ...(libc === undefined ? {} : { libc }), optional: true, os }
    added.push(`${name}@${version}`)
  }
}

lock.packages = Object.fromEntries(Object.entries(lock.packages).toSorted(([a], [b]) => (a < b ? -1 : 1)))
writeFileSync(path, `${JSON.stringify(lock, undefined, 2)}\n`)
process.stdout.write(added.length === 0 ? "package-lock.json is complete\n" : `added ${added.join("\n      ")}\n`)
