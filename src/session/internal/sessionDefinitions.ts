/**
 * Agents of sessions that are data. A definition is stored once, under its digest, before the first message that names it, and
 * the host makes the agent of it again for each turn: with the tools, the models and the limits that it has then.
 */

import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type * as agentTypes from "../../agent/internal/agentTypes.ts"
import * as Digest from "../../payload/Digest.ts"
import type { JsonObject } from "../../payload/Json.ts"
import * as VersionedCodec from "../../payload/VersionedCodec.ts"
import * as base from "../../payload/internal/base.ts"
import type * as VersionedStore from "../../store/VersionedStore.ts"
import * as storage from "../../store/internal/storage.ts"
import type { Reason } from "./sessionTypes.ts"

/** A definition of a message: an agent as JSON, or the digest of one that is stored. */
export const Definition = Schema.Union([Schema.String, Schema.Record(Schema.String, Schema.Json)])

/** Makes the agent of a definition. */
export type Decode = (definition: JsonObject) => Effect.Effect<agentTypes.Agent<unknown>, { readonly message: string }>

/** An agent that a message names. `keep` stores its definition. */
export interface Made {
  readonly agent: agentTypes.Agent<unknown>
  readonly digest: string
  readonly keep: Effect.Effect<void, storage.Reason>
}

const codec = VersionedCodec.single({
  what: "definition of an agent",
  value: Schema.Struct({ definition: Schema.Record(Schema.String, Schema.Json) }),
  header: { kind: "session-definition" },
  data: ["/definition"]
})

const isDigest = (text: string): boolean => /^sha256:[0-9a-f]{64}$/.test(text)

const refuse = (problem: string) => Effect.fail<Reason>({ _tag: "DefinitionInvalid", problem })

export type Definitions = ReturnType<typeof make>

/** The definitions under a namespace of a store. Without `decode` there are none. */
export const make = (store: VersionedStore.Service, namespace: string, decode: Decode | undefined) => {
  const values = storage.documents(store)
  const storedAs = (digest: string) => `${storage.rootKey(namespace)}definitions/${digest}`

  const find = Effect.fnUntraced(function* (digest: string) {
    const found = isDigest(digest) ? yield* values.get(codec, storedAs(digest)) : Option.none()
    return Option.isSome(found)
      ? found.value.value.definition
      : yield* refuse(
          `expected the digest of a definition that is stored, got ${base.quote(digest)}. Send the definition`
        )
  })

  const agentOf = (definition: JsonObject): Effect.Effect<agentTypes.Agent<unknown>, Reason> =>
    decode === undefined
      ? refuse("the layer takes no definitions (definitions)")
      : Effect.catch(decode(definition), ({ message }) => refuse(message))

  return {
    /** The agent of a definition that is stored. */
    stored: (digest: string): Effect.Effect<agentTypes.Agent<unknown>, Reason> => Effect.flatMap(find(digest), agentOf),

    /** The agent of a definition, or of the one with a digest. */
    read: Effect.fnUntraced(function* (given: JsonObject | string): Effect.fn.Return<Made, Reason> {
      const isStored = typeof given === "string"
      const definition = isStored ? yield* find(given) : given
      const agent = yield* agentOf(definition)
      if (isStored) return { agent, digest: given, keep: Effect.void }
      const digest = yield* Effect.catch(Digest.sha256(definition), ({ message }) => refuse(message))
      const stored = Effect.asVoid(values.set(codec, storedAs(digest), Option.none(), { definition }))
      // It is there: its key is its digest
      return { agent, digest, keep: Effect.catchTag(stored, "VersionConflict", () => Effect.void) }
    })
  }
}
