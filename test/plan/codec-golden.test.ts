import { readdirSync, readFileSync } from "node:fs"
import { fileURLToPath } from "node:url"
import { assert, describe, it } from "@effect/vitest"
import { Plan } from "effect-emissary/plan"
import { test } from "../test.ts"

const folder = new URL("./golden-wire/", import.meta.url)
const read = (name: string): string => readFileSync(fileURLToPath(new URL(name, folder)), "utf8")
const names = readdirSync(fileURLToPath(folder)).flatMap((name) =>
  /^plan-v\d+-.*\.wire\.json$/u.test(name) ? [name.replace(/\.wire\.json$/u, "")] : []
)

/** These files never change again; a new version adds its own. */
describe("golden files of the plan wire", () => {
  it("L3 there are some of each version", () => {
    for (const version of Plan.codec.versions) {
      for (const kind of ["read", "written"]) {
        const some = names.some((name) => name.startsWith(`plan-v${version}-`) && name.endsWith(kind))
        assert(some, `version ${version}, ${kind}`)
      }
    }
  })

  for (const name of names) {
    test(`L3 ${name} reads as it always did`, function* () {
      const definition = yield* Plan.codec.decodeJson(read(`${name}.wire.json`))
      assert.deepStrictEqual(JSON.parse(JSON.stringify(definition)), JSON.parse(read(`${name}.value.json`)))
    })
  }

  for (const name of names.filter((name) => name.endsWith("-written"))) {
    test(`L3 ${name} is written as it always was`, function* () {
      const text = read(`${name}.wire.json`)
      const definition = yield* Plan.codec.decodeJson(text)
      const version = Number(/^plan-v(\d+)/u.exec(name)?.[1])
      const written = yield* Plan.codec.encodeJson(definition, { version, indent: 2 })
      assert.strictEqual(written, JSON.stringify(JSON.parse(text), undefined, 2))
    })
  }
})
