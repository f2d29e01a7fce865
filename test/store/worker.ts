/**
 * One process that writes to a store. Its argument is its task, and it reports
 * in lines what has succeeded. Deep imports: many of these are started.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import { VersionedStore } from "effect-emissary"

import * as killable from "./killable.ts"

export interface Postgres {
  readonly url: string
  readonly schema: string
}

export interface Task {
  readonly database: { readonly filename: string } | Postgres
  readonly action: "set once" | "commit once" | "delete once" | "append" | "increment"
  /** The values that this process writes. */
  readonly name: string
  readonly times: number
  /** The point at which the process kills itself; 0 for never. */
  readonly killAt: number
}

// The tests wrote it
const task = JSON.parse(process.argv[2] ?? "{}") as Task

export const id = "shared"

const database = killable.make(task.killAt)

const postgres = ({ schema, url }: Postgres) =>
  Effect.promise(() => import("@effect/sql-pg/PgClient")).pipe(
    Effect.map(({ layer }) => layer({ url: Redacted.make(url), startupParameters: { search_path: schema } })),
    Layer.unwrap
  )

const client = "filename" in task.database ? database.layer(task.database.filename) : postgres(task.database)

const versioned = VersionedStore.layerSql().pipe(Layer.provide(client))

const say = (line: string) => Effect.sync(() => process.stdout.write(`${line}\n`))

const current = Effect.gen(function* () {
  const store = yield* VersionedStore.VersionedStore
  const found = yield* store.get(id)
  const texts = Option.match(found, { onNone: () => [], onSome: ({ value }) => (Array.isArray(value) ? value : []) })
  return { store, texts, expected: Option.map(found, ({ version }) => version) }
})

const append = Effect.fnUntraced(function* (text: string) {
  yield* Effect.flatMap(current, ({ expected, store, texts }) =>
    store.compareAndSet(id, expected, [...texts, text])
  ).pipe(Effect.retry({ while: (error) => error._tag === "VersionConflict" }))
  yield* say(text)
})

const commit = Effect.gen(function* () {
  const { expected, store, texts } = yield* current
  const write = store.commit ?? (() => Effect.die(new Error("the store writes one value at a time")))
  yield* write({
    changed: { key: id, expected, value: [...texts, task.name] },
    added: [{ key: "added", value: task.name }]
  })
})

const increment = Effect.gen(function* () {
  const store = yield* VersionedStore.VersionedStore
  const found = yield* store.get(id)
  const value = Option.match(found, { onNone: () => 0, onSome: ({ value }) => Number(value) })
  yield* store.compareAndSet(
    id,
    Option.map(found, ({ version }) => version),
    value + 1
  )
}).pipe(Effect.retry({ while: (error) => error._tag === "VersionConflict" }))

const actions = {
  "set once": append(task.name),
  "commit once": commit,
  "delete once": Effect.flatMap(VersionedStore.VersionedStore, (store) => store.delete(id)),
  append: Effect.forEach(
    Array.from({ length: task.times }, (_, n) => n),
    (n) => append(`${task.name}${n}`),
    { discard: true }
  ),
  increment: Effect.repeat(increment, { times: task.times - 1 })
}

const program = Effect.gen(function* () {
  // Building the layer is not a point to die at: it changes nothing
  yield* say("ready")
  yield* database.arm
  yield* actions[task.action]
  yield* say(`done after ${yield* database.points} points`)
})

await Effect.runPromise(Effect.provide(program, versioned))
