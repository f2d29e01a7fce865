/**
 * The golden sessions: what a release stores of each scenario, and what it shows of it. `npm run golden:sessions` writes the sessions of
 * today's code to `test/golden/sessions/next`.
 */
import { Context, Effect, Latch, Layer, Logger, Option, Random, Schema, type Scope, Stream } from "effect"
import { TestClock } from "effect/testing"
import { Conversation, VersionedStore } from "effect-emissary"
import { PayloadError } from "effect-emissary/payload"
import { Session } from "effect-emissary/session"
import * as cast from "./cast.ts"

/** A value as a store has it. */
interface Row {
  readonly key: string
  readonly value: Schema.Json
}

/** A session as its callers see it. */
interface Shown {
  readonly state: Schema.Json
  readonly history: Schema.Json
  readonly events: Schema.Json
}

/** A file of a set: what is in the store, and what is seen of it. */
export interface Golden {
  readonly rows: ReadonlyArray<Row>
  readonly list: Schema.Json
  readonly sessions: { readonly [id: string]: Shown }
}

/** The work of a process with sessions in a world. */
export type Body<A = unknown> = (
  sessions: Session.Service,
  stage: cast.Stage
) => Effect.Effect<A, unknown, Session.Session | Scope.Scope>

/**
 * Sessions, and their continuation.
 *
 * - `deletes`: the last process deletes nothing before it is killed.
 * - `begin`: processes, one after the other. The last one is killed at its end: no finalizer runs before its store is copied.
 * - `proceed`: what another process does with the sessions, a day later.
 */
export interface Scenario {
  readonly name: string
  readonly options?: Session.LayerOptions
  readonly deletes?: false
  readonly begin: ReadonlyArray<Body>
  readonly proceed: Body
}

export const born = Date.parse("2026-11-01T12:00:00Z")

export const aDay = 24 * 60 * 60 * 1000

export const dump = Effect.fnUntraced(function* (store: VersionedStore.Service) {
  const { keys } = yield* store.list({ limit: 10_000 })
  const rows = yield* Effect.forEach(keys, (key) =>
    Effect.map(store.get(key), (found): Row => ({ key, value: Option.getOrThrow(found).value }))
  )
  return rows
})

/** Fills an empty store. */
export const load = (store: VersionedStore.Service, { rows }: Pick<Golden, "rows">) =>
  Effect.forEach(rows, ({ key, value }) => store.compareAndSet(key, Option.none(), value), { discard: true })

const inMemory = Effect.map(Layer.build(Layer.fresh(VersionedStore.layerMemory)), (context) =>
  Context.get(context, VersionedStore.VersionedStore)
)

/** Runs a process of the whole cast over a store. */
const processOf = <A>(
  store: VersionedStore.Service,
  stage: cast.Stage,
  { options }: Pick<Scenario, "options">,
  body: Body<A>
) =>
  Effect.flatMap(Session.Session, (sessions) => Effect.scoped(body(sessions, stage))).pipe(
    Effect.provide(Layer.provide(cast.sessionsOf(stage, options), Layer.succeed(VersionedStore.VersionedStore, store)))
  )

/** The time in which a process that ends leaves its turns. */
const closing = Effect.andThen(Effect.repeat(Effect.yieldNow, { times: 100 }), TestClock.adjust("1 minute"))

/** The events that are kept. */
const eventsOf = (sessions: Session.Service, id: string, newest: number) => {
  const from = (after?: string) =>
    sessions.events(id, { after }).pipe(
      Stream.takeUntil(({ sequence }) => sequence === newest),
      Stream.runCollect
    )
  return Effect.catchTag(from(), "SessionError", (error) =>
    error.reason._tag === "EventsPruned" ? from(error.reason.after) : Effect.fail(error)
  )
}

const encodeState = Schema.encodeEffect(Schema.toCodecJson(Session.State))

const encodePage = Schema.encodeEffect(Schema.toCodecJson(Session.Page))

const encodeEntries = Schema.encodeEffect(Schema.toCodecJson(Schema.Array(Session.Entry)))

const refused = Effect.fail(
  new VersionedStore.VersionedStoreError({
    operation: "compareAndSet",
    reason: {
      _tag: "Refused",
      error: new PayloadError.PayloadError({ what: "value", reason: PayloadError.invalid([]) })
    }
  })
)

/** The sessions as a process shows them that can change no value: no turn continues. */
const show = Effect.fnUntraced(function* (store: VersionedStore.Service, scenario: Pick<Scenario, "options">) {
  const sealed = {
    ...store,
    compareAndSet: (...write: Parameters<typeof store.compareAndSet>) =>
      Option.isNone(write[1]) ? store.compareAndSet(...write) : refused,
    delete: () => refused,
    commit: undefined
  }
  const all: Body<Pick<Golden, "list" | "sessions">> = Effect.fnUntraced(function* (sessions) {
    const page = yield* sessions.list({ limit: 200 })
    const shown: Record<string, Shown> = {}
    for (const { id, sequence } of page.sessions.toSorted((a, b) => (a.id < b.id ? -1 : 1))) {
      shown[id] = {
        state: yield* encodeState(Option.getOrThrow(yield* sessions.state(id))),
        history: yield* Conversation.codec.encode(yield* sessions.history(id)),
        events: yield* encodeEntries(yield* eventsOf(sessions, id, sequence))
      }
    }
    return { list: yield* encodePage(page), sessions: shown }
  })
  return yield* processOf(sealed, yield* cast.makeStage(true), scenario, all)
})

/** The same in each run: the time is the time of tests, and what is random has one seed. */
export const inWorld =
  (name: string, time: number) =>
  <A, E>(effect: Effect.Effect<A, E, Scope.Scope>) =>
    Effect.andThen(TestClock.setTime(time), effect).pipe(
      Effect.scoped,
      Random.withSeed(name),
      Effect.provide([TestClock.layer(), Logger.layer([])])
    )

/** The sessions in a store as today's code shows them. */
export const showAgain = (scenario: Scenario, store: VersionedStore.Service) =>
  show(store, scenario).pipe(inWorld(`${scenario.name}, shown`, born + aDay))

/** The sessions as the process shows them that comes after the killed one. */
export const shownOf = (scenario: Scenario, rows: Golden["rows"]) =>
  Effect.gen(function* () {
    const copy = yield* inMemory
    yield* load(copy, { rows })
    return yield* show(copy, scenario)
  }).pipe(inWorld(`${scenario.name}, shown`, born))

/** The sessions of a scenario as today's code stores and shows them. */
export const record = (scenario: Scenario) =>
  Effect.gen(function* () {
    const store = yield* inMemory
    const keeping = scenario.deletes === false ? { ...store, delete: () => Effect.never } : store
    const stage = yield* cast.makeStage(true)
    const last = scenario.begin.length - 1
    const parts = yield* Effect.forEach(scenario.begin, (body, index) =>
      Effect.gen(function* () {
        const isDone = yield* Latch.make()
        const ended = Effect.andThen(isDone.await, closing)
        const run = processOf(index === last ? keeping : store, stage, scenario, (sessions, stage) =>
          Effect.andThen(body(sessions, stage), index === last ? dump(store) : Effect.succeed([])).pipe(
            Effect.tap(isDone.open)
          )
        )
        const [rows] = yield* Effect.all([run, ended], { concurrency: 2 })
        return rows
      })
    )
    const rows = parts.flat()
    const copy = yield* inMemory
    yield* load(copy, { rows })
    return { rows, ...(yield* show(copy, scenario)) } satisfies Golden
  }).pipe(inWorld(scenario.name, born))

/** Runs a process over sessions in a whole world, a day later. */
export const continued = <A>(store: VersionedStore.Service, scenario: Scenario, body: Body<A>) =>
  Effect.flatMap(cast.makeStage(false), (stage) => processOf(store, stage, scenario, body)).pipe(
    inWorld(`${scenario.name}, continued`, born + aDay)
  )

/** The text of a file. */
export const textOf = (golden: Golden): string => `${JSON.stringify(golden, null, 1)}\n`

const idPattern = /\b(?:[0-9a-z]{16}|(?:msg|run)_[0-9A-Za-z]{16})\b/g

/** A life is the beginning of the id of a generation. */
const lifePattern = /\b[0-9a-z]{10}\b/g

/**
 * The text of a file whose ids are numbered in the order in which they come first. Two files differ in it where their layouts or
 * contents differ, and not where an id was drawn from `Random` before another one.
 */
export const layoutOf = ({ rows, ...shown }: Golden): string => {
  const masked = (row: Row) => JSON.stringify([row.key, row.value]).replace(idPattern, "*").replace(lifePattern, "*")
  const sorted = rows.map((row) => [masked(row), row] as const).toSorted(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0))
  const text = textOf({ rows: sorted.map(([, row]) => row), ...shown })
  const ids = new Map<string, string>()
  for (const [id] of text.matchAll(idPattern)) ids.set(id, ids.get(id) ?? `id ${ids.size + 1}`)
  const lives = new Map(Array.from(ids, ([id, name]) => [id.slice(0, 10), `life of ${name}`]))
  return text.replace(idPattern, (id) => ids.get(id) ?? id).replace(lifePattern, (life) => lives.get(life) ?? life)
}

/** The first lines in which two texts differ. */
export const difference = (expected: string, found: string): string | undefined => {
  if (expected === found) return undefined
  const [before, after] = [expected.split("\n"), found.split("\n")]
  const line = before.findIndex((text, index) => text !== after[index])
  const at = line < 0 ? before.length : line
  return [`line ${at + 1}`, `- ${before[at] ?? ""}`, `+ ${after[at] ?? ""}`].join("\n")
}

/** The place where a value lacks something of a recorded value. A later release may show more members. */
export const lacks = (found: unknown, recorded: unknown, path = ""): string | undefined => {
  if (typeof recorded !== "object" || recorded === null || typeof found !== "object" || found === null) {
    return Object.is(found, recorded)
      ? undefined
      : `${path}: expected ${JSON.stringify(recorded)}, got ${JSON.stringify(found)}`
  }
  if (Array.isArray(recorded) && (!Array.isArray(found) || found.length !== recorded.length)) {
    return `${path}: expected ${recorded.length} items`
  }
  for (const [key, value] of Object.entries(recorded)) {
    const lacked = lacks(Reflect.get(found, key), value, `${path}/${key}`)
    if (lacked !== undefined) return lacked
  }
  return undefined
}
