/**
 * The uses of the values that all sessions of a namespace share: definitions of agents, and values of steps.
 *
 * | stored under | meaning |
 * |---|---|
 * | `<namespace>/uses/<digest>/<length>:<id>/<life>` | the session uses the definition |
 * | `<namespace>/journal/<length>:<id>/uses/<life>/<kind>/<key>` | the session uses the definition or the value of a step: the removal of the session reads these rows |
 *
 * The value of a step has its sessions in its own row. A use names the `life` of a session, so it ends with that session, also
 * where another one begins under the id.
 */

import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { plainSchema } from "../../payload/internal/problems.ts"
import * as VersionedCodec from "../../payload/VersionedCodec.ts"
import * as runParts from "../../run/internal/runParts.ts"
import type * as VersionedStore from "../../store/VersionedStore.ts"
import * as documents from "../../store/internal/documents.ts"
import * as storeKeys from "../../store/internal/storeKeys.ts"

/** A session, and not another one under its id. */
export const User = Schema.Struct({ id: Schema.String, life: Schema.String })

export interface User extends Schema.Schema.Type<typeof User> {}

export const Kind = Schema.Literals(["definition", "step-value"])

export type Kind = typeof Kind.Type

/** The name of a shared value: the digest of a definition, or the key of the value of a step. */
export const Name = Schema.Struct({ kind: Kind, key: Schema.String })

export interface Name extends Schema.Schema.Type<typeof Name> {}

/** A definition or the value of a step, and the sessions that use it. */
export const SharedSchema = Schema.Struct({
  ...Name.fields,
  sessions: Schema.Array(Schema.String),
  hasMore: Schema.optionalKey(Schema.Literal(true)),
  isUnreadable: Schema.optionalKey(Schema.Literal(true))
})

/** A definition or the value of a step, and the sessions that use it. */
export interface Shared extends Schema.Schema.Type<typeof SharedSchema> {}

export const Shared: Schema.Codec<Shared, unknown> = plainSchema(SharedSchema)

const next = Schema.OptionFromNullOr(Schema.String)

export const SharedPageSchema = Schema.Struct({ values: Schema.Array(SharedSchema), next })

/** Some of the shared values. */
export interface SharedPage extends Schema.Schema.Type<typeof SharedPageSchema> {}

export const SharedPage: Schema.Codec<SharedPage, unknown> = plainSchema(SharedPageSchema)

export const PrunedPageSchema = Schema.Struct({ removed: Schema.Array(Name), next })

/** The shared values of a page that were removed. */
export interface PrunedPage extends Schema.Schema.Type<typeof PrunedPageSchema> {}

export const PrunedPage: Schema.Codec<PrunedPage, unknown> = plainSchema(PrunedPageSchema)

const codec = VersionedCodec.single({
  what: "use of a session",
  value: Schema.Struct({ at: runParts.Time }),
  header: { kind: "session-use" }
})

const userOf = (text: string): User => {
  const start = text.indexOf(":") + 1
  const end = start + Number.parseInt(text, 10)
  return { id: text.slice(start, end), life: text.slice(end + 1) }
}

export type SessionUses = ReturnType<typeof make>

/** The uses under a namespace of a store. */
export const make = (store: VersionedStore.Service, namespace: string) => {
  const values = documents.of(store)
  const root = storeKeys.rootKey(namespace)
  const usesOf = (digest: string) => `${root}uses/${digest}/`
  const useKey = ({ id, life }: User, digest: string) => `${usesOf(digest)}${storeKeys.partOfKey(id)}${life}`
  const notesOf = ({ id, life }: User) => `${root}journal/${storeKeys.partOfKey(id)}uses/${life}/`
  const noteKey = (user: User, { key, kind }: Name) => `${notesOf(user)}${kind}/${key}`

  const put = Effect.fnUntraced(function* (key: string) {
    const written = values.set(codec, key, Option.none(), { at: yield* DateTime.now })
    // It is there
    yield* Effect.catchTag(written, "VersionConflict", () => Effect.void)
  })

  /** Both rows as one commit, `None` where that cannot be. */
  const together = Effect.fnUntraced(function* (use: string, note: string) {
    if (store.commit === undefined) return Option.none()
    const at = yield* DateTime.now
    const value = yield* values.encode(codec, use, { at })
    const added = [{ key: note, value: yield* values.encode(codec, note, { at }) }]
    return yield* Effect.mapError(
      store.commit({ changed: { key: use, expected: Option.none(), value }, added }),
      documents.reasonOf(use)
    )
  })

  return {
    /** Notes that a session uses a name, before it does. */
    note: (user: User, name: Name) => put(noteKey(user, name)),

    forget: (user: User, name: Name) => values.deleteAll([noteKey(user, name)]),

    /** The names that a session uses. */
    namesOf: (user: User): Effect.Effect<ReadonlyArray<Name>, documents.Reason> =>
      Effect.map(values.list(notesOf(user)), (keys) =>
        keys.flatMap((stored) => {
          const [, kind, key] = /^([^/]*)\/(.*)$/s.exec(stored.slice(notesOf(user).length)) ?? []
          return isKind(kind) && key !== undefined ? [{ kind, key }] : []
        })
      ),

    /** Records that a session uses a definition. The note comes last: where it is found, both rows are there. */
    add: Effect.fnUntraced(function* (user: User, digest: string) {
      const note = noteKey(user, { kind: "definition", key: digest })
      if (Option.isSome(yield* values.find(note))) return
      if (Option.isSome(yield* together(useKey(user, digest), note))) return
      yield* put(useKey(user, digest))
      yield* put(note)
    }),

    remove: (user: User, digest: string) =>
      values.deleteAll([useKey(user, digest), noteKey(user, { kind: "definition", key: digest })]),

    /** The time from which a session uses a name, `None` if it does not. */
    addedAt: (user: User, name: Name) =>
      Effect.map(
        values.get(codec, name.kind === "definition" ? useKey(user, name.key) : noteKey(user, name)),
        Option.map(({ value }) => value.at)
      ),

    /** Some of the sessions that use a definition. */
    users: (digest: string, options: { readonly after?: User | undefined; readonly limit: number }) =>
      Effect.mapBoth(
        store.list({
          prefix: usesOf(digest),
          after: options.after && useKey(options.after, digest),
          limit: options.limit
        }),
        {
          onFailure: documents.reasonOf(usesOf(digest)),
          onSuccess: ({ keys, next }) => ({
            users: keys.map((key) => userOf(key.slice(usesOf(digest).length))),
            hasMore: Option.isSome(next)
          })
        }
      )
  }
}

const isKind = Schema.is(Kind)
