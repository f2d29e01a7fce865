#!/usr/bin/env node
// npx effect-emissary <folder>: a chat with a tool that asks first, a test, a page, a Dockerfile and a compose file, in an empty folder.
import { cpSync, existsSync, mkdirSync, readFileSync, readdirSync, renameSync, writeFileSync } from "node:fs"
import { basename, join, resolve } from "node:path"
import { fileURLToPath } from "node:url"

const [name = "."] = process.argv.slice(2)
if (name.startsWith("-")) {
  process.stdout.write("npx effect-emissary <folder>: makes a chat with tests in an empty folder\n")
  process.exit(0)
}
const folder = resolve(name)
if (existsSync(folder) && readdirSync(folder).length > 0) {
  process.stderr.write(
    `expected an empty folder, found files in ${folder}. Name another: npx effect-emissary my-chat\n`
  )
  process.exit(1)
}
mkdirSync(folder, { recursive: true })
const template = fileURLToPath(new URL(".", import.meta.url))
cpSync(template, folder, { recursive: true, filter: (path) => basename(path) !== "create.mjs" })
// npm leaves a .gitignore out of packages
renameSync(join(folder, "gitignore"), join(folder, ".gitignore"))
const path = join(folder, "package.json")
const manifest = JSON.parse(readFileSync(path, "utf8"))
const { version } = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8"))
manifest.name = basename(folder)
  .toLowerCase()
  .replace(/[^a-z0-9-]+/g, "-")
manifest.dependencies["effect-emissary"] = `^${version}`
writeFileSync(path, `${JSON.stringify(manifest, undefined, 2)}\n`)
process.stdout.write(`A chat is in ${folder}. Next:
  cd ${folder} && npm install && npm test
  CHAT_PASSWORD=s3cret npm start
`)
