/**
 * Agents of sessions that are data. A definition is stored once, under its digest, before the first message that names it, and
 * the host makes the agent of it again for each turn: with the tools, the models and the limits that it has then.
 *
 * It is removed with the last session that uses it, also while others begin to use it:
 *
 * | who begins to use it | who removes it |
 * |---|---|
 * | 1. adds its use | 1. removes its use, and finds no other one |
 * | 2. reads the definition. Writes it if it is not there, or if it is `leaving` | 2. writes that the definition is `leaving` |
 * | 3. stores the message that names it | 3. finds no use again, and deletes the definition in the version that it wrote |
 *
 * A use that is added before the second look is found there. A use that is added later finds a definition that is
 * `leaving` or gone, and writes it, so that the version of step 3 is no longer there.
 */

import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as agentData from "../../agent/internal/agentData.ts"
import type * as agentTypes from "../../agent/internal/agentTypes.ts"
import * as agentValue from "../../agent/internal/agentValue.ts"
import * as Digest from "../../payload/Digest.ts"
import * as Json from "../../payload/Json.ts"
import type { JsonObject } from "../../payload/Json.ts"
import * as VersionedCodec from "../../payload/VersionedCodec.ts"
import * as base from "../../payload/internal/base.ts"
import { checkObject } from "../../payload/internal/copyJson.ts"
import { isArray } from "../../payload/internal/values.ts"
import type * as VersionedStore from "../../store/VersionedStore.ts"
import * as documents from "../../store/internal/documents.ts"
import * as storeKeys from "../../store/internal/storeKeys.ts"
import type { Reason } from "./types.ts"
import type { SessionUses, User } from "./sharedUses.ts"

const refuse = (problem: string) => Effect.fail<Reason>({ _tag: "DefinitionInvalid", problem })

/**
 * The key of the options of a model in a definition, which may be signed, and in the definitions of the agents inside.
 */
const optionsName = "model_options"

/** The definitions of agents in JSON, with their paths, as far as these have the form of `Agent.encode`. */
const agentsIn = (root: JsonObject) => {
  const all = [{ json: root, path: "" }]
  for (const { json, path } of all) {
    const inside = Json.isObject(json["payload"]) ? [{ json: json["payload"], path: `${path}/payload` }] : []
    const tools = isArray(json["tools"]) ? json["tools"] : []
    const behind = tools.flatMap((tool, index) =>
      Json.isObject(tool) && Json.isObject(tool["agent"])
        ? [{ json: tool["agent"], path: `${path}/tools/${index}/agent` }]
        : []
    )
    all.push(...inside, ...behind)
  }
  return all
}

const what = "definition of an agent"

/**
 * Checks the definition of a message where the message is sent, before any store has it: it is the digest of one, or JSON
 * within the limits without a secret among the options of a model.
 */
export const check = (definition: unknown): Effect.Effect<JsonObject | string, Reason> =>
  typeof definition === "string"
    ? Effect.succeed(definition)
    : Effect.gen(function* () {
        const json = yield* checkObject(definition, { what })
        for (const one of agentsIn(json)) {
          const options = one.json[optionsName]
          if (!Json.isObject(options)) continue
          yield* agentData.rejectSecrets(options, { what, path: `${one.path}/${optionsName}` })
        }
        return json
      }).pipe(Effect.catch(({ message }) => refuse(message)))

/** Makes the agent of a definition. */
export type Decode = (definition: JsonObject) => Effect.Effect<agentTypes.Agent<unknown>, { readonly message: string }>

/** An agent that a message names, and its definition. */
export interface Made {
  readonly agent: agentTypes.Agent<unknown>
  readonly digest: string
  readonly definition: JsonObject
}

/** Without `use` the definition was stored before its uses were counted, and is never removed. */
const Stored = Schema.Struct({
  definition: Schema.Record(Schema.String, Schema.Json),
  use: Schema.optionalKey(Schema.Literals(["counted", "leaving"]))
})

const codec = VersionedCodec.single({
  what,
  value: Stored,
  header: { kind: "session-definition" },
  data: ["/definition"]
})

const isDigest = (text: string): boolean => /^sha256:[0-9a-f]{64}$/.test(text)

export type Definitions = ReturnType<typeof make>

/** The definitions under a namespace of a store, of a host with these agents. Without `decode` there are none. */
export const make = (
  store: VersionedStore.Service,
  namespace: string,
  uses: SessionUses,
  { agents, decode }: { readonly agents: ReadonlyMap<string, unknown>; readonly decode: Decode | undefined }
) => {
  const values = documents.of(store)
  const storedAs = (digest: string) => `${storeKeys.rootKey(namespace)}definitions/${digest}`

  const find = Effect.fnUntraced(function* (digest: string) {
    const found = isDigest(digest) ? yield* values.get(codec, storedAs(digest)) : Option.none()
    if (Option.isNone(found)) {
      const problem = `expected the digest of a definition that is stored, got ${base.quote(digest)}. Send the definition`
      return yield* refuse(problem)
    }
    const { definition } = found.value.value
    const actual = yield* digestOf(definition)
    if (actual === digest) return definition
    return yield* Effect.fail(
      documents.damaged(storedAs(digest), `expected the definition with this digest, got a definition with ${actual}`)
    )
  })

  const digestOf = (definition: JsonObject) => Effect.catch(Digest.sha256(definition), ({ message }) => refuse(message))

  const agentOf = (definition: JsonObject): Effect.Effect<agentTypes.Agent<unknown>, Reason> =>
    decode === undefined
      ? refuse("the layer takes no definitions (definitions)")
      : Effect.catch(decode(definition), ({ message }) => refuse(message))

  /** Stores a definition for a session that is about to name it. */
  const keep = Effect.fnUntraced(function* (
    user: User,
    { definition, digest }: Pick<Made, "definition" | "digest">
  ): Effect.fn.Return<void, documents.Reason> {
    yield* uses.add(user, digest)
    const stored = Effect.gen(function* () {
      const found = Option.getOrUndefined(yield* values.get(codec, storedAs(digest)))
      if (found !== undefined && found.value.use !== "leaving") return
      const version = Option.fromUndefinedOr(found?.version)
      yield* values.set(codec, storedAs(digest), version, { definition, use: "counted" })
    })
    yield* stored.pipe(
      Effect.retry({ while: ({ _tag }) => _tag === "VersionConflict" }),
      Effect.catchTag("VersionConflict", Effect.die)
    )
  })

  const isUsed = (digest: string) => Effect.map(uses.users(digest, { limit: 1 }), ({ users }) => users.length > 0)

  /** Removes a definition that no session uses. Returns whether it did. */
  const collect = (digest: string): Effect.Effect<boolean, documents.Reason> =>
    Effect.gen(function* () {
      if (yield* isUsed(digest)) return false
      const found = Option.getOrUndefined(yield* values.get(codec, storedAs(digest)))
      if (found?.value.use === undefined) return false
      const version = yield* values.set(codec, storedAs(digest), Option.some(found.version), {
        ...found.value,
        use: "leaving"
      })
      if (yield* isUsed(digest)) return false
      return yield* store.delete(storedAs(digest), { version })
    }).pipe(
      Effect.catchTag("VersionedStoreError", (error) => Effect.fail(documents.reasonOf(storedAs(digest))(error))),
      // Another session uses it, or another process removes it
      Effect.catchTag("VersionConflict", () => Effect.succeed(false))
    )

  return {
    keep,

    collect,

    /** Stores the definition with a digest for another session. */
    keepStored: (user: User, digest: string): Effect.Effect<void, Reason> =>
      Effect.flatMap(find(digest), (definition) => keep(user, { definition, digest })),

    leave: (user: User, digest: string): Effect.Effect<void, documents.Reason> =>
      Effect.andThen(uses.remove(user, digest), collect(digest)),

    /** True if the layer takes definitions. */
    areHosted: decode !== undefined,

    /** The agent of a definition that is stored. */
    stored: (digest: string): Effect.Effect<agentTypes.Agent<unknown>, Reason> => Effect.flatMap(find(digest), agentOf),

    /** The agent of a definition that a message carries, or of the one with a digest. Fails where no turn could run it. */
    read: Effect.fnUntraced(function* (given: JsonObject | string): Effect.fn.Return<Made, Reason> {
      const checked = yield* check(given)
      const isStored = typeof checked === "string"
      const definition = isStored ? yield* find(checked) : checked
      const agent = yield* agentOf(definition)
      if (agents.has(agent.name)) {
        const found = base.quote(agent.name)
        return yield* refuse(`expected a name that no agent of the layer has, got ${found}. Rename the agent`)
      }
      yield* Effect.catch(agentValue.check(agent), ({ message }) => refuse(message))
      return { agent, definition, digest: isStored ? checked : yield* digestOf(definition) }
    })
  }
}
