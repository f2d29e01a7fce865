/** DOCS-5: the JSON Schemas of the package, against independent validators and against the readers of the package. */
import { assert, describe, it } from "@effect/vitest"
import { Validator } from "@cfworker/json-schema"
import { Ajv2020 } from "ajv/dist/2020.js"
import { Effect, Result } from "effect"
import * as exported from "effect-emissary"
import { Plan, PlanRun } from "effect-emissary/plan"
import { Signed } from "effect-emissary/payload"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { goldenFiles } from "../../scripts/golden.ts"
import { filesOf, pathOf } from "../../scripts/schemas.ts"
import { descriptions } from "../../scripts/schemas/descriptions.ts"
import { wires, type Wire } from "../../scripts/schemas/wires.ts"
import { glob } from "../../scripts/sources.ts"
import { root } from "./run.ts"

type Json = null | boolean | number | string | ReadonlyArray<Json> | JsonObject
type JsonObject = { readonly [key: string]: Json }

const isObject = (json: Json | undefined): json is JsonObject =>
  typeof json === "object" && json !== null && !Array.isArray(json)

const textOf = (path: string): string => readFileSync(join(root, path), "utf8")

const read = (path: string): JsonObject => JSON.parse(textOf(path))

const checks = wires.map((wire) => {
  const json = read(pathOf(wire))
  // a keyword that ajv does not know is an error
  const ajv = new Ajv2020({ strict: true, strictTypes: false, validateFormats: false }).compile(json)
  const cfworker = new Validator(json, "2020-12")
  return {
    wire,
    json,
    ajv: (value: Json): boolean => ajv(value),
    cfworker: (value: Json): boolean => cfworker.validate(value).valid
  }
})

const checkOf = (name: string) => {
  const found = checks.find(({ wire }) => wire.name === name)
  assert(found !== undefined, name)
  return found
}

/** The schema of a golden file, by the name of the file. */
const schemaOf = (path: string): string | undefined => {
  const [, kind, version] = /\/(agent|plan|conversation)-v(\d+)[-.]/.exec(path) ?? []
  if (kind !== undefined) return `${kind}-${version}`
  const [, run] = /\/((?:plan-)?run-(?:state|events))-[a-z]+-v1\.json$/.exec(path) ?? []
  return run === undefined ? undefined : `${run}-1`
}

interface Document {
  readonly path: string
  readonly name: string
  readonly json: Json
}

const files = goldenFiles().flatMap((path): ReadonlyArray<Document> => {
  const name = schemaOf(path)
  return name === undefined ? [] : [{ path, name, json: read(path) }]
})

/** Each event of the lists of events, as a document of its own. */
const single = files.flatMap(({ json, name, path }): ReadonlyArray<Document> => {
  const events = isObject(json) ? json["events"] : undefined
  if (!Array.isArray(events)) return []
  return events.map((event: Json, index) => ({
    path: `${path} ${index}`,
    name: name.replace("events", "event"),
    json: { version: 1, event }
  }))
})

const documents = [...files, ...single]

/** The document with another value in each place, with a member more in each object, and without each member. */
function* changesOf(json: Json, path = ""): Generator<readonly [what: string, json: Json]> {
  const isRoot = path === ""
  for (const other of isRoot ? [] : [null, true, 1.5, "text", [], {}]) {
    if (JSON.stringify(other) !== JSON.stringify(json)) yield [`${path} = ${JSON.stringify(other)}`, other]
  }
  if (Array.isArray(json)) {
    for (const [index, item] of json.entries()) {
      for (const [what, changed] of changesOf(item, `${path}/${index}`)) yield [what, json.with(index, changed)]
    }
  } else if (isObject(json)) {
    yield [`${path} with more`, { ...json, unknown_member: 1 }]
    for (const [key, value] of Object.entries(json)) {
      // another version has another schema
      if (isRoot && key.endsWith("version")) continue
      const { [key]: _, ...rest } = json
      yield [`${path} without ${key}`, rest]
      for (const [what, changed] of changesOf(value, `${path}/${key}`)) yield [what, { ...json, [key]: changed }]
    }
  }
}

/**
 * The changes that the package refuses and that the schemas of definitions and conversations do not: keywords of the JSON Schemas
 * inside, digests, names, times, and the laws of a conversation.
 */
const beyond: { readonly [name: string]: RegExp } = {
  "agent-2":
    /^\/(?:tools\/\d\/(?:parameters|success|failure|annotations|name|digest|timeout)|output\/schema|context|model|max_steps)\b|^\/tools\/\d(?:\/annotations)? without (?!name|parameters)/,
  "plan-3": /^(?:\/steps\/\d)?\/(?:input|output)\b/,
  "conversation-1":
    /\/createdAt = "text"|\/content = \[\]|\/(?:callId|id|name|text) = "text"|\/arguments\b| without providerExecuted/
}

describe("DOCS-5 the JSON Schemas of the package", () => {
  it("are those of the code as it is now", async () => {
    const made = await filesOf()
    assert.deepStrictEqual(glob("schemas/*"), [...made.keys()].toSorted())
    for (const [path, text] of made) assert.strictEqual(textOf(path), text, `${path}: run npm run schemas`)
  })

  it("are there for each version of each public codec", () => {
    const modules: ReadonlyArray<object> = [...Object.values(exported), Plan, PlanRun]
    const codecs = modules
      .flatMap((module): ReadonlyArray<unknown> => Object.values(module))
      .filter(
        (value): value is NonNullable<Wire["codec"]> =>
          typeof value === "object" && value !== null && "versions" in value && "decodeJson" in value
      )
    assert.isAbove(codecs.length, 7)
    for (const codec of codecs) {
      const covered = wires.filter((wire) => wire.codec?.what === codec.what).map(({ version }) => version)
      assert.deepStrictEqual(covered, [...codec.versions], codec.what)
    }
  })

  it("accept every golden file and every event, by two validators", () => {
    assert.sameMembers(
      [...new Set(documents.map(({ name }) => name)), "signed-1"],
      wires.map(({ name }) => name)
    )
    for (const { json, name, path } of documents) {
      const check = checkOf(name)
      assert.isTrue(check.ajv(json), `${path}: ajv`)
      assert.isTrue(check.cfworker(json), `${path}: cfworker`)
    }
  })

  it("refuse nothing that the package reads", () => {
    for (const { wire, ajv } of checks) {
      // the documents of runs are long, and much alike
      const step = /run-/.test(wire.name) ? 97 : 1
      const missed: Array<string> = []
      let count = 0
      for (const { json, path } of documents.filter(({ name }) => name === wire.name)) {
        let index = 0
        for (const [what, changed] of changesOf(json)) {
          if (index++ % step > 0 || wire.codec === undefined) continue
          const isRead = Result.isSuccess(Effect.runSync(Effect.result(wire.codec.decode(changed))))
          const isValid = ajv(changed)
          assert.isTrue(isValid || !isRead, `${path} ${what}: read by the package, refused by the schema`)
          if (isValid && !isRead) missed.push(what)
          count += 1
        }
      }
      const law = beyond[wire.name]
      if (law !== undefined) {
        assert.deepStrictEqual(
          missed.filter((what) => !law.test(what)),
          [],
          wire.name
        )
      }
      assert.isTrue(wire.codec === undefined || missed.length < count / 2, wire.name)
    }
  })

  it.effect("accept a document that was signed", () =>
    Effect.gen(function* () {
      const { privateKey } = yield* Signed.generateKeys
      const agent = read("test/golden/wire/agent-v2-written.wire.json")
      const codec = exported.AgentDefinition.codec
      const signed = yield* Signed.sign(agent, { as: codec, key: { keyId: "k", privateKey } })
      const { ajv, cfworker } = checkOf("signed-1")
      assert.deepStrictEqual([ajv(signed), cfworker(signed), ajv(agent)], [true, true, false])
    })
  )

  it("describe each member of a definition to its author", () => {
    const used = new Set<string>()
    const visit = (json: Json, place: string, path: string): void => {
      if (Array.isArray(json)) return json.forEach((item, index) => visit(item, place, `${path}/${index}`))
      if (!isObject(json)) return
      for (const [key, value] of Object.entries(json)) {
        if (key === "$defs" && isObject(value)) {
          for (const [name, part] of Object.entries(value)) visit(part, name, `${path}/$defs/${name}`)
        } else if (key === "properties" && isObject(value)) {
          for (const [name, part] of Object.entries(value)) {
            used.add(`${place}.${name}`)
            assert.isString(
              isObject(part) ? part["description"] : undefined,
              `${path}/${name}: add a text for ${place}`
            )
            visit(part, name, `${path}/${name}`)
          }
        } else visit(value, place, path)
      }
    }
    for (const name of ["agent-2", "plan-3"]) visit(checkOf(name).json, name, name)
    const texts = Object.entries(descriptions).flatMap(([place, members]) =>
      Object.keys(members).map((member) => `${place}.${member}`)
    )
    assert.deepStrictEqual(
      texts.filter((text) => !used.has(text)),
      []
    )
  })
})

describe("DOCS-5 a definition names its schema for editors", () => {
  const $schema = "node_modules/effect-emissary/schemas/agent-2.schema.json"
  const definitions = files.filter(({ name }) => /^(?:agent|plan)-\d$/.test(name))
  const codecOf = (name: string) => (name.startsWith("agent") ? exported.AgentDefinition.codec : Plan.codec)

  it.effect("$schema is left out of the definition, and is not written again", () =>
    Effect.gen(function* () {
      assert.isAbove(definitions.length, 5)
      for (const { json, name, path } of definitions) {
        assert(isObject(json))
        const { decode } = codecOf(name)
        assert.deepStrictEqual<unknown>(yield* decode({ $schema, ...json }), yield* decode(json), path)
        assert.isTrue(checkOf(name).ajv({ $schema, ...json }), path)
      }
      const agent = yield* exported.AgentDefinition.codec.decode({ $schema, schema_version: 2, name: "a" })
      assert.notProperty(yield* exported.AgentDefinition.codec.encode(agent), "$schema")
      const bare = yield* exported.AgentDefinition.codec.decode({ schema_version: 2, name: "a" })
      const { digest } = exported.AgentDefinition
      assert.strictEqual(yield* digest(agent), yield* digest(bare))
      const steps = [{ name: "a", target: { kind: "tool", name: "a" } }]
      const plan = yield* Plan.codec.decode({ $schema, version: 3, steps })
      assert.notProperty(yield* Plan.codec.encode(plan), "$schema")
    })
  )

  it.effect("the files of the pages are read, and fit the schemas that they name", () =>
    Effect.gen(function* () {
      for (const [page, name] of [
        ["docs/agents.md", "agent-2"],
        ["docs/plans.md", "plan-3"]
      ] as const) {
        const found = Array.from(textOf(page).matchAll(/```json\n([^]*?)```/g), ([, text = ""]) => text).find((text) =>
          text.includes("$schema")
        )
        assert(found !== undefined, page)
        const json: JsonObject = JSON.parse(found)
        assert.strictEqual(json["$schema"], `./node_modules/effect-emissary/${pathOf(checkOf(name).wire)}`)
        assert.isTrue(checkOf(name).ajv(json), page)
        yield* codecOf(name).decode(json)
      }
    })
  )

  it.effect("another value than a text is refused, and so is a schema of an agent inside", () =>
    Effect.gen(function* () {
      const inside = { name: "t", parameters: {}, agent: { $schema } }
      const pathsOf = (error: { readonly problems: ReadonlyArray<{ readonly path: string }> }) =>
        error.problems.map(({ path }) => path)
      const { codec } = exported.AgentDefinition
      const number = yield* Effect.flip(codec.decode({ $schema: 1, schema_version: 2 }))
      assert.deepStrictEqual(pathsOf(number), ["/$schema"])
      const inner = yield* Effect.flip(codec.decode({ schema_version: 2, tools: [inside] }))
      assert.deepStrictEqual(pathsOf(inner), ["/tools/0/agent/$schema"])
      const list = yield* Effect.flip(Plan.codec.decode({ $schema: [], version: 3, steps: [] }))
      assert.include(pathsOf(list), "/$schema")
    })
  )
})
