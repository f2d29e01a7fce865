/**
 * Suites that an implementation of a store or of a tool runtime has to pass: run them against your own.
 *
 * @since 0.1.0
 */

import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as TestClock from "effect/testing/TestClock"
import * as Agent from "../agent/Agent.ts"
import * as Session from "../session/Session.ts"
import * as VersionedStore from "../store/VersionedStore.ts"
import * as RunContext from "../tool/RunContext.ts"
import * as ToolFailure from "../tool/ToolFailure.ts"
import * as ToolResult from "../tool/ToolResult.ts"
import * as ToolRuntime from "../tool/ToolRuntime.ts"
import * as ToolSettings from "../tool/ToolSettings.ts"
import * as boundTool from "../tool/internal/boundTool.ts"
import * as toolCall from "../tool/internal/toolCall.ts"
import * as ScriptedModel from "./ScriptedModel.ts"
import * as Simulation from "./Simulation.ts"
import { endWithin, expectEqual, makeCheck, show, type Check } from "./internal/checks.ts"

export { ConformanceError, type Check } from "./internal/checks.ts"

/**
 * Options of the suites for stores.
 *
 * @category options
 * @since 0.1.0
 */
export interface StoreOptions {
  /** True if values outlive the layer, so that the layer built again finds them; default `false`. */
  readonly durable?: boolean | undefined
}

/**
 * The checks for a store: compare and set, versions, values, keys, listing, concurrent
 * writers, interruption.
 *
 * **When to use**
 *
 * Use in the tests of a store of your own. The suite depends on no test framework: register
 * each check as a test, or run them one after another.
 *
 * **Details**
 *
 * Each check builds the layer for itself, and deletes all keys that start with
 * `conformance/` before and after. Pass `durable: false` for a store whose values end with
 * its layer. The state after a killed process is not checked.
 *
 * **Example** (Checking a store)
 *
 * ```ts
 * import { Effect } from "effect"
 * import { VersionedStore } from "effect-emissary"
 * import { Conformance } from "effect-emissary/testing"
 * const checks = Conformance.versionedStore("memory", VersionedStore.layerMemory, { durable: false })
 *
 * // with @effect/vitest: for (const { name, check } of checks) it.effect(name, () => check)
 * await Effect.runPromise(Effect.forEach(checks, ({ check }) => check, { discard: true }))
 * ```
 *
 * @category constructors
 * @since 0.1.0
 */
export const versionedStore = <E = never>(
  name: string,
  layer: Layer.Layer<VersionedStore.VersionedStore, E>,
  options?: StoreOptions
): ReadonlyArray<Check> => storeChecks(name, layer, options)

/**
 * The checks for a tool runtime: order, concurrency, calls inside calls, one execution for
 * each call, settling, timeouts, interruption, validation, context.
 *
 * **When to use**
 *
 * Use in the tests of a runtime of your own. The suite depends on no test framework: register
 * each check as a test, or run them one after another.
 *
 * **Details**
 *
 * A runtime that executes calls elsewhere is passed as a function of the tools and handlers
 * to put there.
 *
 * **Example** (Checking a runtime)
 *
 * ```ts
 * import { Effect } from "effect"
 * import { ToolRuntime } from "effect-emissary"
 * import { Conformance } from "effect-emissary/testing"
 * const checks = Conformance.toolRuntime("concurrent", ToolRuntime.layerConcurrent({ maxConcurrency: 2 }))
 *
 * // with @effect/vitest: for (const { name, check } of checks) it.effect(name, () => check)
 * await Effect.runPromise(Effect.forEach(checks, ({ check }) => check, { discard: true }))
 * ```
 *
 * @category constructors
 * @since 0.1.0
 */
export const toolRuntime = <E = never>(
  name: string,
  runtime: Layer.Layer<never, E> | ((fixture: ToolFixture) => Layer.Layer<never, E>),
  options?: ToolRuntimeOptions
): ReadonlyArray<Check> =>
  [...toolRules, ...(options?.context === false ? [] : [contextRule])].map((rule) =>
    makeCheck(name, rule.name, runToolRule(runtime, rule, options))
  )

/**
 * The checks for a store as sessions use it: chats with tools, in worlds ({@link Simulation}) whose processes die, are paused and are
 * replaced while they use the store.
 *
 * **Details**
 *
 * Each check is a world. Its key prefix is `conformance/`, as in {@link versionedStore}. The operations of the store
 * may use promises and sockets: the rest of the world waits meanwhile.
 *
 * - `worlds`: the number of worlds; default 5.
 *
 * **Example** (A store in worlds)
 *
 * ```ts
 * import { Effect } from "effect"
 * import { VersionedStore } from "effect-emissary"
 * import { Conformance } from "effect-emissary/testing"
 *
 * const checks = Conformance.simulate("memory", VersionedStore.layerMemory, { worlds: 2 })
 *
 * await Effect.runPromise(Effect.forEach(checks, ({ check }) => check, { discard: true }))
 * ```
 *
 * @category constructors
 * @since 0.1.0
 */
export const simulate = <E = never>(
  name: string,
  layer: Layer.Layer<VersionedStore.VersionedStore, E>,
  options?: { readonly worlds?: number | undefined }
): ReadonlyArray<Check> =>
  range(options?.worlds ?? 5).map((index) => {
    const world = Simulation.run(workers, {
      seeds: [index + 1],
      outside: Ledger.layer,
      store: emptied(layer, "conformance/worlds/"),
      script: (world) =>
        Effect.gen(function* () {
          yield* Simulation.chats({ messages: 4, input: (message, session) => `${message} of ${session}` })(world)
          const { started } = yield* Ledger
          const twice = started.filter((call, at) => started.indexOf(call) !== at)
          yield* expectEqual("calls that started twice", [], twice)
        })
    })
    return makeCheck(name, `sessions survive their processes (world ${index + 1})`, world)
  })

/** The calls that have started, in all processes of a world. */
class Ledger extends Context.Service<Ledger, { readonly started: Array<string> }>()(
  "effect-emissary/testing/Conformance/Ledger"
) {
  static readonly layer = Layer.sync(Ledger, () => ({ started: [] }))
}

const Work = Tool.make("work", { parameters: Schema.Struct({ call: Schema.String }), success: Schema.String })

const workKit = Toolkit.make(Work)

/** Sessions of an agent that calls a tool for each message, and then answers. */
const workers = Session.layer([Agent.make("worker", { toolkit: workKit })], { leaseTime: "500 millis" }).pipe(
  Layer.provide(
    workKit.toLayer(
      Effect.map(Ledger, ({ started }) => ({
        work: ({ call }) =>
          Effect.suspend(() => {
            started.push(call)
            return Effect.delay(Effect.succeed("done"), 30)
          })
      }))
    )
  ),
  Layer.provide(
    ScriptedModel.layer(({ messages }) => {
      const last = messages.at(-1)
      return last?.role === "user"
        ? { delay: 20, toolCalls: [{ name: "work", params: { call: last.text } }] }
        : { delay: 20, text: "done" }
    })
  )
)

/** The part of a store under a prefix, which is empty at first. */
const emptied = <E>(layer: Layer.Layer<VersionedStore.VersionedStore, E>, prefix: string) =>
  Layer.effect(
    VersionedStore.VersionedStore,
    Effect.gen(function* () {
      const store = yield* VersionedStore.VersionedStore
      yield* removeAll(store, prefix)
      yield* Effect.addFinalizer(() => Effect.ignore(removeAll(store, prefix)))
      const { commit } = store
      const under = (key: string) => prefix + key
      return {
        get: (key) => store.get(under(key)),
        compareAndSet: (key, expected, value) => store.compareAndSet(under(key), expected, value),
        delete: (key, options) => store.delete(under(key), options),
        list: (options = {}) =>
          Effect.map(
            store.list({
              ...options,
              prefix: under(options.prefix ?? ""),
              after: options.after === undefined ? undefined : under(options.after)
            }),
            ({ keys, next }) => ({
              keys: keys.map((key) => key.slice(prefix.length)),
              next: Option.map(next, (key) => key.slice(prefix.length))
            })
          ),
        commit:
          commit &&
          (({ added, changed, removed }) =>
            commit({
              changed: { ...changed, key: under(changed.key) },
              added: added.map((one) => ({ ...one, key: under(one.key) })),
              removed: removed?.map((one) => ({ ...one, key: under(one.key) }))
            }))
      }
    })
  ).pipe(Layer.provide(layer))

const expectSome = <A>(what: string, found: Option.Option<A>): Effect.Effect<A, string> =>
  Option.isSome(found) ? Effect.succeed(found.value) : Effect.fail(`${what}: expected a value, got none`)

/** The error that an effect must end with. */
const expectError = <A, E extends { readonly _tag: string }, Tag extends E["_tag"], R>(
  what: string,
  tag: Tag,
  effect: Effect.Effect<A, E, R>
): Effect.Effect<Extract<E, { readonly _tag: Tag }>, string, R> =>
  Effect.matchEffect(effect, {
    onSuccess: (value) => Effect.fail(`${what}: expected ${tag}, got the success ${show(value)}`),
    onFailure: (error) =>
      error._tag === tag
        ? // Sound: the tag identifies the member of the union.
          Effect.succeed(error as Extract<E, { readonly _tag: Tag }>)
        : Effect.fail(`${what}: expected ${tag}, got ${show(error)}`)
  })

const range = (count: number): ReadonlyArray<number> => Array.from({ length: count }, (_, n) => n)

/** One rule of a store, which uses this part of it alone. */
interface StoreRule {
  readonly name: string
  readonly check: (store: VersionedStore.Service, part: string) => Effect.Effect<void, unknown>
}

/** One check for each rule: in a layer of its own, and in a part of the store that is empty before and after. */
const storeChecks = <E>(
  name: string,
  layer: Layer.Layer<VersionedStore.VersionedStore, E>,
  options: StoreOptions | undefined
): ReadonlyArray<Check> => {
  const open = (use: (store: VersionedStore.Service) => Effect.Effect<void, unknown>) =>
    Effect.provide(Effect.flatMap(VersionedStore.VersionedStore, use), Layer.fresh(layer))
  const checks = storeRules.map((rule, index) => {
    const part = `conformance/${index}/`
    const check = open((store) => Effect.andThen(removeAll(store, part), rule.check(store, part)))
    return makeCheck(
      name,
      rule.name,
      Effect.andThen(
        check,
        open((store) => removeAll(store, part))
      )
    )
  })
  if (options?.durable === false) return checks
  const kept = "conformance/kept"
  const first = open((store) =>
    Effect.andThen(removeAll(store, kept), Effect.asVoid(store.compareAndSet(kept, none, 1)))
  )
  const second = open((store) => Effect.andThen(expectValue("the value", 1, store, kept), removeAll(store, kept)))
  return [...checks, makeCheck(name, "values are there when the store is opened again", Effect.andThen(first, second))]
}

/** A value that must be under a key. */
const expectValue = (what: string, expected: Schema.Json, store: VersionedStore.Service, key: string) =>
  Effect.flatMap(store.get(key), (found) =>
    expectEqual(what, expected, Option.isSome(found) ? found.value.value : undefined)
  )

/** All names under a prefix, page by page. */
const listAll = Effect.fnUntraced(function* (store: VersionedStore.Service, prefix: string, limit: number) {
  const all: Array<string> = []
  let after: string | undefined
  do {
    const page = yield* store.list({ prefix, limit, after })
    if (page.keys.length > limit) return yield* Effect.fail(`at most ${limit} names on a page, got ${page.keys.length}`)
    all.push(...page.keys)
    after = Option.getOrUndefined(page.next)
  } while (after !== undefined)
  return all
})

const removeAll = (store: VersionedStore.Service, part: string) =>
  Effect.flatMap(
    listAll(store, part, 100),
    Effect.forEach((key) => store.delete(key), { discard: true })
  )

const none = Option.none<string>()

const expectConflict = (
  what: string,
  expected: Pick<VersionedStore.VersionConflict, "key" | "expected" | "found">,
  effect: Effect.Effect<unknown, VersionedStore.VersionConflict | VersionedStore.VersionedStoreError>
): Effect.Effect<void, string> =>
  Effect.flatMap(expectError(what, "VersionConflict", effect), ({ key, expected: from, found }) =>
    expectEqual(what, expected, { key, expected: from, found })
  )

/** Keys that file systems and databases like to confuse. */
const hostileKeys: ReadonlyArray<string> = [
  // Paths
  ["", ".", "..", "../../etc/passwd", "/abs", "C:\\x", "a/b", "a\\b"],
  // Escapes and patterns
  ["a%2Fb", "a_2fb", "a_b", "a%b", "a*b?", "'; DROP TABLE x; --"],
  // Upper and lower case, names of devices, and what file systems cut off
  ["case", "CASE", "Case", "con", "CON", "nul.json", "com1", "trailing ", "trailing.", "trailing"],
  // Composed and decomposed letters, pairs and halves of pairs
  ["é", "e\u0301", "日本語", "👩‍👩‍👧", "\ud83d", "\ude00", "😀", "\u0000", "a\u0000", "\n"],
  // Members of every object, and prefixes that a store may use itself
  ["__proto__", "constructor", "h-0000", "k-"],
  // More than a file name or an index holds
  [`${"long".repeat(100)}a`, `${"long".repeat(100)}b`, "LONG".repeat(100), "long".repeat(5_000), "\ud800".repeat(500)]
].flat()

const increment = (store: VersionedStore.Service, key: string) =>
  Effect.gen(function* () {
    const found = yield* store.get(key)
    const n = Option.match(found, { onNone: () => 0, onSome: ({ value }) => Number(value) })
    const version = Option.map(found, ({ version }) => version)
    yield* store.compareAndSet(key, version, n + 1)
  }).pipe(Effect.retry({ while: (error) => error._tag === "VersionConflict" }))

/** Values that storage likes to change. */
const jsonSamples: ReadonlyArray<Schema.Json> = [
  null,
  true,
  0,
  -1.5e-7,
  Number.MAX_SAFE_INTEGER,
  "",
  "null",
  "line\nbreak\r\n\ttab, \u0000 and \u007f, 'quotes' \"\\ ; -- ${x} %_",
  "héllo 日本 👩‍👩‍👧 \ud800 \u2028",
  [],
  {},
  [[], [{}], [null]],
  { "": 1, "a/b": { "~": [1, "2", false] }, constructor: "x", toString: 1 },
  "x".repeat(300_000)
]

const storeRules: ReadonlyArray<StoreRule> = [
  {
    name: "an absent value is None, cannot be changed and is deleted without effect",
    check: Effect.fnUntraced(function* (store, part) {
      const key = `${part}none`
      yield* expectEqual("get", none, yield* store.get(key))
      yield* expectEqual("delete", false, yield* store.delete(key))
      const conflict = { key, expected: Option.some("1-x"), found: none }
      yield* expectConflict("a change", conflict, store.compareAndSet(key, Option.some("1-x"), 1))
      yield* expectConflict("a delete in a version", conflict, store.delete(key, { version: "1-x" }))
      yield* expectEqual("get", none, yield* store.get(key))
    })
  },
  {
    name: "a write succeeds from the version it was made for and from no other",
    check: Effect.fnUntraced(function* (store, part) {
      const key = `${part}cas`
      const first = yield* store.compareAndSet(key, none, 1)
      yield* expectEqual("get", Option.some({ value: 1, version: first }), yield* store.get(key))
      const started = { key, expected: none, found: Option.some(first) }
      yield* expectConflict("a second start", started, store.compareAndSet(key, none, 0))
      const second = yield* store.compareAndSet(key, Option.some(first), 2)
      if (second === first) return yield* Effect.fail("a write must return a new version")
      const stale = { key, expected: Option.some(first), found: Option.some(second) }
      yield* expectConflict("a stale write", stale, store.compareAndSet(key, Option.some(first), 3))
      yield* expectConflict("a stale delete", stale, store.delete(key, { version: first }))
      yield* expectEqual("get", Option.some({ value: 2, version: second }), yield* store.get(key))
      const third = yield* store.compareAndSet(key, Option.some(second), 2)
      if (third === second) return yield* Effect.fail("a write of the same value must return a new version")
    })
  },
  {
    name: "a version never comes back, even if the value was deleted and made again",
    check: Effect.fnUntraced(function* (store, part) {
      const key = `${part}again`
      const first = yield* store.compareAndSet(key, none, 1)
      yield* expectEqual("delete in the version", true, yield* store.delete(key, { version: first }))
      yield* expectEqual("get", none, yield* store.get(key))
      const second = yield* store.compareAndSet(key, none, 1)
      const stale = { key, expected: Option.some(first), found: Option.some(second) }
      const late = store.compareAndSet(key, Option.some(first), 2)
      yield* expectConflict("a write from the version before the delete", stale, late)
      yield* expectEqual("delete", true, yield* store.delete(key))
      yield* expectEqual("delete again", false, yield* store.delete(key))
    })
  },
  {
    name: "different text is a different name, whatever the text",
    check: Effect.fnUntraced(function* (store, part) {
      for (const [index, key] of hostileKeys.entries()) yield* store.compareAndSet(`${part}${key}`, none, index)
      for (const [index, key] of hostileKeys.entries()) {
        yield* expectValue(`key ${JSON.stringify(key.slice(0, 40))}`, index, store, `${part}${key}`)
      }
      const sorted = hostileKeys.map((key) => `${part}${key}`).sort()
      yield* expectEqual("list", sorted, yield* listAll(store, part, 7))
      for (const key of hostileKeys) yield* expectEqual("delete", true, yield* store.delete(`${part}${key}`))
      yield* expectEqual("list after deleting all", [], yield* listAll(store, part, 100))
    })
  },
  {
    name: "list is ordered by code units, cut into pages, and takes prefixes literally",
    check: Effect.fnUntraced(function* (store, part) {
      const names = ["a", "a-1", "a.2", "a/1", "a/10", "a/2", "a/2/x", "aB", "a_1", "a%", "ab", "b", "A", "{", "\uffff"]
      for (const key of names) yield* store.compareAndSet(`${part}${key}`, none, 0)
      const all = names.map((key) => `${part}${key}`).sort()
      for (const prefix of ["", "a", "a/", "a/1", "a%", "a_", "A", "\uffff", "zz"]) {
        const under = all.filter((key) => key.startsWith(`${part}${prefix}`))
        for (const limit of [1, 2, 100]) {
          yield* expectEqual(`prefix ${prefix}`, under, yield* listAll(store, `${part}${prefix}`, limit))
        }
      }
      const exact = yield* store.list({ prefix: part, limit: all.length })
      yield* expectEqual("a page that holds the rest", { keys: all, next: none }, exact)
      const after = yield* store.list({ prefix: part, after: all.at(-1) ?? "" })
      yield* expectEqual("after the last", { keys: [], next: none }, after)
      const between = yield* store.list({ prefix: `${part}a/`, after: `${part}a/11`, limit: 1 })
      const expected = { keys: [`${part}a/2`], next: Option.some(`${part}a/2`) }
      yield* expectEqual("after an absent key", expected, between)
    })
  },
  {
    name: "concurrent writers lose nothing",
    check: Effect.fnUntraced(function* (store, part) {
      const key = `${part}counter`
      const writers = range(8).map(() => Effect.repeat(increment(store, key), { times: 4 }))
      yield* Effect.all(writers, { concurrency: "unbounded" })
      yield* expectValue("increments", 40, store, key)
      const start = (n: number) => Effect.result(store.compareAndSet(`${part}start`, none, n))
      const starts = yield* Effect.forEach(range(5), start, { concurrency: "unbounded" })
      yield* expectEqual("writers that started the value", 1, starts.filter(Result.isSuccess).length)
    })
  },
  {
    name: "an interrupted writer leaves the old value or the new one, and blocks no other",
    check: Effect.fnUntraced(function* (store, part) {
      const key = `${part}interrupted`
      const found = Effect.flatMap(store.get(key), (found) => expectSome("the value", found))
      const read = Effect.map(found, ({ value }) => Number(value))
      yield* increment(store, key)
      for (const turns of range(12)) {
        const before = yield* read
        const fiber = yield* Effect.forkChild(increment(store, key))
        for (let turn = 0; turn < turns; turn++) yield* Effect.yieldNow
        yield* Fiber.interrupt(fiber)
        const after = yield* read
        if (after !== before && after !== before + 1) {
          return yield* Effect.fail(`expected ${before} or one more, got ${after}`)
        }
      }
      yield* increment(store, key)
    })
  },
  {
    name: "every JSON value comes back as it was, as a copy of its own",
    check: Effect.fnUntraced(function* (store, part) {
      for (const [index, value] of jsonSamples.entries()) {
        const key = `${part}${index}`
        yield* store.compareAndSet(key, none, value)
        yield* expectValue(`value ${index}`, value, store, key)
      }
      const mutable = { list: [1] }
      const key = `${part}copy`
      yield* store.compareAndSet(key, none, mutable)
      mutable.list.push(2)
      yield* expectValue("after the value was changed", { list: [1] }, store, key)
    })
  },
  {
    name: "values that are not JSON and limits that are not integers from 1 are refused, and nothing is written",
    check: Effect.fnUntraced(function* (store, part) {
      const key = `${part}refused`
      const hostile: ReadonlyArray<unknown> = [Number.NaN, undefined, new Date(0), JSON.parse(`{"__proto__":{}}`)]
      for (const value of hostile) {
        // Unsound on purpose: callers without types pass such values.
        const write = store.compareAndSet(key, none, value as Schema.Json)
        const error = yield* expectError("a value that is not JSON", "VersionedStoreError", write)
        yield* expectEqual("the reason", "Refused", error.reason._tag)
      }
      for (const limit of [0, -1, 1.5, Number.NaN]) {
        const error = yield* expectError(`list with the limit ${limit}`, "VersionedStoreError", store.list({ limit }))
        yield* expectEqual("the reason", "Refused", error.reason._tag)
      }
      yield* expectEqual("get", none, yield* store.get(key))
    })
  }
]

/**
 * Options of {@link toolRuntime}.
 *
 * @category options
 * @since 0.1.0
 */
export interface ToolRuntimeOptions {
  /**
   * True if the tools have no body here: the runtime executes them elsewhere, with the handlers that the function
   * receives; default `false`.
   */
  readonly stubs?: boolean | undefined
  /** `"virtual"` (default) moves a test clock; `"live"` waits, for runtimes that use sockets or processes. */
  readonly clock?: "virtual" | "live" | undefined
  /** The timeout of the tool that never ends; default 200 milliseconds. */
  readonly timeout?: Duration.Input | undefined
  /**
   * The time of one check, in real time; default 3 seconds. A check that takes longer fails and names what did not
   * happen, whatever still runs.
   */
  readonly limit?: Duration.Input | undefined
  /** `false` for a runtime that replaces the context of the run; default `true`. */
  readonly context?: boolean | undefined
}

/**
 * The tools of the suite {@link toolRuntime} and their handlers.
 *
 * @category models
 * @since 0.1.0
 */
export type ToolFixture = Pick<Effect.Success<ReturnType<typeof makeTools>>, "toolkit" | "handlers">

const runToolRule = <E>(
  runtime: Layer.Layer<never, E> | ((fixture: ToolFixture) => Layer.Layer<never, E>),
  { check }: ToolRule,
  options: ToolRuntimeOptions | undefined
) => {
  const timeout = Duration.fromInputUnsafe(options?.timeout ?? "200 millis")
  const live = options?.clock === "live"
  const limit = Duration.fromInputUnsafe(options?.limit ?? "3 seconds")
  const progress = { expected: "all calls of a batch to end" }
  const program = Effect.gen(function* () {
    const fixture = yield* makeTools(timeout)
    const local = yield* boundTool.fromToolkit(fixture.toolkit).pipe(Effect.provide(fixture.handlers))
    const stubs = Effect.forEach(local, (tool) => boundTool.makeStub(tool.contract))
    const bound = yield* boundTool.makeSet(options?.stubs === true ? yield* stubs : local)
    const layer = typeof runtime === "function" ? runtime(fixture) : runtime
    const advance = live ? Effect.void : TestClock.adjust(timeout)
    const expectNext = (expected: string) => Effect.sync(() => void (progress.expected = expected))
    yield* check({ fixture, bound, advance, expectNext }).pipe(Effect.provide(layer))
  })
  return endWithin(limit, progress, Effect.scoped(live ? program : Effect.provide(program, TestClock.layer())))
}

const NumberedResult = Schema.Struct({ n: Schema.Int })

const conformanceToolkit = (timeout: Duration.Input) =>
  Toolkit.make(
    Tool.make("conformance_echo", {
      parameters: Schema.Struct({ n: Schema.Int, turns: Schema.Int }),
      success: NumberedResult
    }),
    Tool.make("conformance_meet", { parameters: NumberedResult, success: NumberedResult }),
    Tool.make("conformance_fail", { failure: ToolFailure.ToolFailure }),
    Tool.make("conformance_boom"),
    Tool.make("conformance_hang", { parameters: NumberedResult }).annotate(ToolSettings.Timeout, timeout),
    Tool.make("conformance_wait", { parameters: NumberedResult }),
    Tool.make("conformance_defaults", {
      parameters: Schema.Struct({
        list: Schema.Array(Schema.Int),
        size: Schema.optionalKey(Schema.Int.annotate({ default: 10 }))
      }),
      success: Schema.Struct({ list: Schema.Array(Schema.Int), size: Schema.optionalKey(Schema.Int) })
    }),
    Tool.make("conformance_context", { success: Schema.Json }),
    Tool.make("conformance_nest", { parameters: Schema.Struct({ depth: Schema.Int }), success: Schema.Int })
  )

const makeTools = (timeout: Duration.Input) =>
  Effect.gen(function* () {
    const toolkit = conformanceToolkit(timeout)
    const probe = { running: 0, most: 0, met: 0, checked: 0, held: 0, executed: new Array<string>() }
    const started = yield* Deferred.make<void>()
    const released = yield* Deferred.make<void>()
    const together = yield* Deferred.make<void>()
    /** The batch that the handler of `conformance_nest` runs. */
    const inner: { run: (depth: number) => Effect.Effect<number> } = { run: Effect.succeed }
    const executed = (name: string) => Effect.sync(() => void probe.executed.push(name))

    const count = Effect.sync(() => {
      probe.running += 1
      probe.most = Math.max(probe.most, probe.running)
    })
    const discount = Effect.sync(() => {
      probe.running -= 1
    })

    const hang = Effect.suspend(() => {
      probe.held += 1
      return Deferred.succeed(started, undefined)
    }).pipe(
      Effect.andThen(Effect.never),
      Effect.onInterrupt(() => {
        probe.held -= 1
        return probe.held === 0 ? Deferred.succeed(released, undefined) : Effect.void
      })
    )

    const handlers = toolkit.of({
      conformance_echo: ({ n, turns }) =>
        Effect.gen(function* () {
          yield* count
          yield* executed(`echo ${n}`)
          for (let turn = 0; turn < turns; turn++) yield* Effect.yieldNow
          return { n }
        }).pipe(Effect.ensuring(discount)),
      conformance_meet: ({ n }) =>
        Effect.suspend(() => {
          probe.met += 1
          return Effect.as(probe.met < 2 ? Deferred.await(together) : Deferred.succeed(together, undefined), { n })
        }),
      conformance_fail: () =>
        Effect.andThen(executed("fail"), ToolFailure.ToolFailure.error("no such thing", { type: "not_found" })),
      conformance_boom: () => Effect.andThen(executed("boom"), Effect.die("boom")),
      conformance_hang: () => hang,
      conformance_wait: () => hang,
      conformance_defaults: (args) =>
        Effect.sync(() => {
          probe.checked += 1
          return args
        }),
      conformance_context: () => RunContext.RunContext,
      conformance_nest: ({ depth }) => inner.run(depth)
    })
    return { toolkit, handlers: toolkit.toLayer(handlers), probe, started, released, inner }
  })

type Tools = Effect.Success<ReturnType<typeof makeTools>>

interface RuleInput {
  readonly fixture: Tools
  readonly bound: boundTool.ToolSet
  /** Lets the timeout of the hanging tool pass. */
  readonly advance: Effect.Effect<void>
  /** Names the event that a rule waits for from here on. */
  readonly expectNext: (expected: string) => Effect.Effect<void>
}

interface ToolRule {
  readonly name: string
  readonly check: (input: RuleInput) => Effect.Effect<void, string>
}

const prepareCall = (bound: boundTool.ToolSet, id: string, name: string, args: Schema.Json) => {
  const about = { runId: "conformance", context: { tenant: "acme" } }
  return boundTool.prepare(bound, { id, name: `conformance_${name}`, arguments: args }, about)
}

/** Runs a batch of calls whose arguments fit. */
const runCalls = (
  { bound }: RuleInput,
  list: ReadonlyArray<readonly [name: string, args: Schema.Json]>,
  watch?: Parameters<typeof toolCall.run<never, never>>[1]
) =>
  Effect.forEach(list, ([name, args], index) =>
    Effect.flatMap(prepareCall(bound, String(index), name, args), (result) =>
      Result.isSuccess(result) ? Effect.succeed(result.success) : Effect.fail(`not prepared: ${result.failure.message}`)
    )
  ).pipe(Effect.flatMap((batch) => toolCall.run(batch, watch)))

/** More batches inside each other than a limit that is meant for one batch lets through. */
const nestedBatches = 16

const resultKind = (result: ToolResult.ToolResult | undefined): string => {
  if (result === undefined) return "nothing"
  return result._tag === "Success" ? "success" : result.type
}

const successValue = (result: ToolResult.ToolResult | undefined) =>
  result?._tag === "Success" ? result.value : undefined

const contextRule: ToolRule = {
  name: "handlers see the context of the run",
  check: Effect.fnUntraced(function* (input) {
    const results = yield* runCalls(input, [["context", {}]])
    yield* expectEqual("context", [{ tenant: "acme" }], results.map(successValue))
  })
}

const toolRules: ReadonlyArray<ToolRule> = [
  {
    name: "results come in call order, calls start in call order",
    check: Effect.fnUntraced(function* (input) {
      const numbers = range(6)
      const started: Array<string> = []
      const calls = numbers.map((n) => ["echo", { n, turns: 25 - 5 * n }] as const)
      const results = yield* runCalls(input, calls, { onStarted: (id) => Effect.sync(() => started.push(id)) })
      const expected = numbers.map((n) => ({ n }))
      yield* expectEqual("results", expected, results.map(successValue))
      yield* expectEqual("starts", numbers.map(String), started)
    })
  },
  {
    name: "no more calls run at once than the runtime allows, and two do if it allows two",
    check: Effect.fnUntraced(function* (input) {
      const { concurrency } = yield* ToolRuntime.ToolRuntime
      const calls = range(8).map((n) => ["echo", { n, turns: 10 }] as const)
      yield* runCalls(input, calls)
      const { most } = input.fixture.probe
      if (concurrency !== "unbounded" && most > concurrency) {
        return yield* Effect.fail(`at most ${concurrency} calls may run at once, got ${most}`)
      }
      if (concurrency === 1) return
      yield* input.expectNext("two calls of a batch to run at once")
      const meeting = yield* runCalls(input, [
        ["meet", { n: 1 }],
        ["meet", { n: 2 }]
      ])
      yield* expectEqual("two calls that wait for each other", [{ n: 1 }, { n: 2 }], meeting.map(successValue))
    })
  },
  {
    name: "a call may run a batch of its own, as an agent that is a tool does: the limit is one per batch",
    check: Effect.fnUntraced(function* (input) {
      const { inner } = input.fixture
      const runtime = yield* ToolRuntime.ToolRuntime
      const width = runtime.concurrency === "unbounded" ? 4 : Math.min(4, runtime.concurrency)
      const nest = (depth: number, calls: number) =>
        runCalls(
          input,
          Array.from({ length: calls }, () => ["nest", { depth }] as const)
        )
      const expected = width * (1 + nestedBatches)
      let executed = 0
      inner.run = (depth) => {
        executed += 1
        // A runtime that executes calls more than once would double them with each level.
        if (depth === 0 || executed > expected) return Effect.succeed(0)
        return nest(depth - 1, 1).pipe(
          Effect.provideService(ToolRuntime.ToolRuntime, runtime),
          Effect.map(([result]) => 1 + Number(successValue(result))),
          Effect.orDie
        )
      }
      yield* input.expectNext(
        `${width} calls with batches inside each other, ${nestedBatches} deep, to end. A limit must not count the calls of other batches`
      )
      const results = yield* nest(nestedBatches, width)
      yield* expectEqual("results", Array<number>(width).fill(nestedBatches), results.map(successValue))
    })
  },
  {
    name: "each call is executed once, also a call that fails",
    check: Effect.fnUntraced(function* (input) {
      const results = yield* runCalls(input, [
        ["echo", { n: 1, turns: 2 }],
        ["fail", {}],
        ["boom", {}],
        ["echo", { n: 2, turns: 0 }]
      ])
      yield* expectEqual("results", 4, results.length)
      const executed = ["boom", "echo 1", "echo 2", "fail"]
      yield* expectEqual("executed calls", executed, input.fixture.probe.executed.toSorted())
    })
  },
  {
    name: "a failure or a defect of one call loses no other result",
    check: Effect.fnUntraced(function* (input) {
      const results = yield* runCalls(input, [
        ["echo", { n: 1, turns: 20 }],
        ["fail", {}],
        ["boom", {}],
        ["echo", { n: 2, turns: 1 }]
      ])
      yield* expectEqual("results", ["success", "not_found", "unhandled_error", "success"], results.map(resultKind))
      const failure = results[1]
      yield* expectEqual("the typed failure", "no such thing", failure === undefined ? "" : ToolResult.text(failure))
    })
  },
  {
    name: "a call that takes too long is a timeout_error, its handler is interrupted, its siblings are not",
    check: Effect.fnUntraced(function* (input) {
      const running = runCalls(input, [
        ["echo", { n: 1, turns: 1 }],
        ["hang", { n: 2 }],
        ["echo", { n: 3, turns: 1 }]
      ])
      const fiber = yield* Effect.forkChild(running)
      yield* input.expectNext("the handler of the call that takes too long to start")
      yield* Deferred.await(input.fixture.started)
      yield* input.advance
      yield* input.expectNext("the batch to end after the timeout of its slowest call")
      const results = yield* Fiber.join(fiber)
      yield* expectEqual("results", ["success", "timeout_error", "success"], results.map(resultKind))
      const late = results[1]
      if (late === undefined || !ToolResult.text(late).includes("timed out")) {
        return yield* Effect.fail(`the message must report the timeout, got ${show(late)}`)
      }
      yield* input.expectNext("the handler of the call that takes too long to be interrupted")
      yield* Deferred.await(input.fixture.released)
    })
  },
  {
    name: "interrupting the batch interrupts every handler; what ended keeps its result, what never started has none",
    check: Effect.fnUntraced(function* (input) {
      const { concurrency } = yield* ToolRuntime.ToolRuntime
      const calls = [
        ["echo", { n: 1, turns: 0 }],
        ["wait", { n: 2 }],
        ["wait", { n: 3 }]
      ] as const
      const started = new Set<string>()
      const finished = new Map<string, ToolResult.ToolResult>()
      const running = yield* Deferred.make<void>()
      const first = yield* Deferred.make<void>()
      const fiber = yield* Effect.forkChild(
        runCalls(input, calls, {
          onStarted: (id) => {
            started.add(id)
            const all = started.size === Math.min(3, concurrency === "unbounded" || concurrency > 1 ? 3 : 2)
            return all ? Deferred.succeed(running, undefined) : Effect.void
          },
          onFinished: (id, result) => {
            finished.set(id, result)
            return id === "0" ? Deferred.succeed(first, undefined) : Effect.void
          }
        })
      )
      yield* input.expectNext("the first call to end and the next ones to start")
      yield* Deferred.await(first)
      yield* Deferred.await(running)
      yield* Deferred.await(input.fixture.started)
      yield* input.expectNext("the batch to end when it is interrupted")
      const startedBefore = started.size
      yield* Fiber.interrupt(fiber)
      yield* input.expectNext("every handler to be interrupted with the batch")
      yield* Deferred.await(input.fixture.released)
      yield* expectEqual("calls that started", startedBefore, started.size)
      yield* expectEqual("the call that had ended", "success", resultKind(finished.get("0")))
      for (const id of ["1", "2"]) {
        yield* expectEqual(`call ${id}`, started.has(id) ? "interrupted" : "nothing", resultKind(finished.get(id)))
      }
    })
  },
  {
    name: "arguments that do not fit reach no handler, and arguments that fit arrive as they were checked",
    check: Effect.fnUntraced(function* (input) {
      const wrong = yield* prepareCall(input.bound, "0", "defaults", { list: "no", size: "large" })
      const found = Result.isFailure(wrong) ? wrong.failure.type : "success"
      yield* expectEqual("wrong arguments", "validation_error", found)
      yield* expectEqual("handlers that ran", 0, input.fixture.probe.checked)
      const results = yield* runCalls(input, [["defaults", `{"list":"[1,2]"}`]])
      yield* expectEqual("arguments", [{ list: [1, 2], size: 10 }], results.map(successValue))
    })
  }
]
