/** MONEY-5: structured output that is shown while it arrives, to the readers of sessions and on pages. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Schema, Stream } from "effect"
import { TestRunner } from "effect/cluster"
import { Agent, VersionedStore } from "effect-emissary"
import { UiMessages } from "effect-emissary/http"
import { SqliteClient } from "effect-emissary/node"
import { ChatEvent, ClusterSession, Session } from "effect-emissary/session"
import { ScriptedModel } from "effect-emissary/testing"
import * as agUi from "#src/http/internal/agUi.ts"
import * as screen from "#src/http/internal/screen.ts"
import * as browser from "../../browser/sessions.js"
import { test } from "../test.ts"
import * as t from "./sessions.ts"

const Order = Schema.Struct({ title: Schema.String, items: Schema.Array(Schema.Struct({ name: Schema.String })) })
const order = { title: "Groceries", items: [{ name: "bread" }, { name: "milk" }] }
const json = JSON.stringify(order)

const answers = {
  text: { text: json, chunkDelay: "10 millis" },
  tool: { toolCalls: [{ name: "final_answer", params: order }], chunkDelay: "10 millis" }
} as const

const agents = [
  Agent.make("text", { output: Order, outputStrategy: "prompted" }),
  Agent.make("tool", { output: Order, outputStrategy: "tool" })
]

const model = ScriptedModel.layer((request) => answers[t.asked(request) === "tool" ? "tool" : "text"], { chunkSize: 4 })

const run = { retry: { times: 1, delay: 0 } } as const

const layers = [
  ["in memory", Session.layer(agents, { run }).pipe(Layer.provide([model, VersionedStore.layerMemory]))],
  [
    "on SQLite",
    Session.layer(agents, { run }).pipe(
      Layer.provide([model, Layer.orDie(SqliteClient.layerStore({ filename: ":memory:" }))])
    )
  ],
  [
    "on a fleet",
    ClusterSession.layer(agents, { run }).pipe(
      Layer.provide([
        model,
        Layer.mergeAll(
          TestRunner.layer,
          VersionedStore.layerMemory,
          Layer.orDie(SqliteClient.layer({ filename: ":memory:" }))
        )
      ])
    )
  ]
] as const

const isEnd = (event: ChatEvent.ChatEvent) => event._tag === "TurnFinished" || event._tag === "TurnFailed"

/** The outputs that a page shows, one for each event that changes the output. */
const valuesOf = (events: ReadonlyArray<ChatEvent.ChatEvent>) => {
  const values: Array<unknown> = []
  let output: ChatEvent.PartialOutput | undefined
  for (const event of events) {
    output = ChatEvent.partialOutput(output, event)
    if (output?.value !== values.at(-1)) values.push(output?.value)
  }
  return values
}

const liveOf = (id: string, after?: string) =>
  Session.live(id, { every: 0, ...(after !== undefined && { after }) }).pipe(
    Stream.filterMap(ChatEvent.project()),
    Stream.takeUntil(({ event }) => isEnd(event)),
    Stream.runCollect
  )

const eventsIn = (entries: ReadonlyArray<ChatEvent.Entry>) => entries.map(({ event }) => event)

describe("MONEY-5 structured output of sessions", () => {
  for (const [place, layer] of layers) {
    for (const name of ["text", "tool"] as const) {
      it.live(`MONEY-5 ${place}: a reader folds the parts of the output, wherever it begins: ${name}`, () =>
        Effect.gen(function* () {
          const id = `chat/${name}`
          yield* Session.send(id, name, { agent: name })
          const entries = yield* liveOf(id)
          const events = eventsIn(entries)
          const values = valuesOf(events)
          assert.deepStrictEqual(values.at(-1), order)
          assert.isAbove(values.length, 1)
          // The call of the output stays hidden
          assert.isFalse(events.some((event) => event._tag === "AnswerDelta" && event.type === "tool-call"))
          for (const [index, { cursor }] of entries.entries()) {
            if (index === entries.length - 1) continue
            const rest = eventsIn(yield* liveOf(id, cursor))
            assert.deepStrictEqual(valuesOf([...events.slice(0, index + 1), ...rest]).at(-1), order)
          }
          // Nothing of it is stored
          const stored = yield* Session.events(id).pipe(
            Stream.takeUntil(({ event }) => event._tag === "RunEvent" && event.event._tag === "RunFinished"),
            Stream.runCollect
          )
          assert.notInclude(JSON.stringify(stored), "OutputDelta")
        }).pipe(Effect.provide(layer))
      )
    }
  }

  const broken: ReadonlyArray<ScriptedModel.Turn> = [
    { text: `{"title":"Old","items":[{"name":"soap"}`, fail: { reason: "RateLimitError" } },
    { text: json }
  ]
  const chunked = (script: ReadonlyArray<ScriptedModel.Turn>) => ScriptedModel.layer(script, { chunkSize: 4 })
  const prompted = Agent.make("text", { output: Order, outputStrategy: "prompted" })
  const tool = Agent.make("tool", { output: Order, outputStrategy: "tool" })

  test("MONEY-5 L12 the parts of an attempt that is withdrawn leave the screen", function* () {
    const events = yield* prompted
      .stream("Go", run)
      .pipe(Stream.rechunk(1), ChatEvent.projectRun(), Stream.runCollect, Effect.provide(chunked(broken)))
    const values = valuesOf(events)
    const at = values.indexOf(undefined)
    assert.deepStrictEqual(values[at - 1], { title: "Old", items: [{ name: "soap" }] })
    for (const value of values.slice(at)) assert.notInclude(JSON.stringify(value) ?? "", "soap")
    assert.deepStrictEqual(values.at(-1), order)
  })

  test("MONEY-5 an output that does not fit leaves the screen with the turn", function* () {
    const script = [{ text: `{"title":"Old","items":[{"name":"soap"},1]}` }]
    const stream = prompted.stream("Go").pipe(Stream.rechunk(1), Stream.provide(chunked(script)))
    const events = yield* stream.pipe(ChatEvent.projectRun(), Stream.runCollect)
    assert.deepInclude(valuesOf(events), { title: "Old", items: [{ name: "soap" }] })
    assert.strictEqual(ChatEvent.partialOutput({ length: 1, value: 1 }, events.at(-1) as never), undefined)
    const chunks = yield* Stream.fromIterable(events).pipe(UiMessages.fromEvents(), Stream.runCollect)
    const data = chunks.flatMap((chunk) => (chunk.type === "data-partial-output" ? [chunk.data] : []))
    assert.deepStrictEqual(data.at(-2), { title: "Old", items: [{ name: "soap" }] })
    assert.isNull(data.at(-1))
  })

  for (const [name, agent, turn] of [
    ["text", prompted, { text: json }],
    ["tool", tool, answers.tool]
  ] as const) {
    test(`MONEY-5 UI messages and AG-UI have the output while it grows: ${name}`, function* () {
      const events = yield* agent
        .stream("Go")
        .pipe(
          Stream.rechunk(1),
          ChatEvent.projectRun(),
          Stream.runCollect,
          Effect.provide(chunked([{ ...turn, chunkDelay: 0 }]))
        )
      const chunks = yield* Stream.fromIterable(events).pipe(UiMessages.fromEvents(), Stream.runCollect)
      const data = chunks.flatMap((chunk) => (chunk.type === "data-partial-output" ? [chunk.data] : []))
      assert.isAbove(data.length, 3)
      // A page without Effect folds the same events to the same values
      let known: ChatEvent.PartialOutput | undefined
      let shown: ReturnType<typeof browser.partialOutput>
      for (const event of events) {
        known = ChatEvent.partialOutput(known, event)
        shown = browser.partialOutput(shown, event)
        assert.deepStrictEqual(shown?.value, known?.value)
      }
      assert.deepStrictEqual(data.at(-1), order)
      const final = chunks.flatMap((chunk) => (chunk.type === "data-output" ? [chunk.data] : []))
      assert.deepStrictEqual(final, [order])
      let page = agUi.begin("m", { threadId: "t", runId: "r", messages: [], hasReasoning: false })
      page = { ...page, turn: { ...page.turn, of: undefined, phase: "within" } }
      const deltas: Array<unknown> = []
      for (const event of events) {
        const [next, sent] = screen.show(agUi.protocol, page, event)
        page = next
        for (const one of sent) if (one.type === "STATE_DELTA") deltas.push(one["delta"])
      }
      assert.deepStrictEqual(deltas.at(-1), [{ op: "add", path: "/output", value: order }])
    })
  }

  test("MONEY-5 what is sent of a long output has a length in proportion to it", function* () {
    const long = { title: "x".repeat(20_000), items: [] }
    const events = yield* prompted
      .stream("Go")
      .pipe(
        Stream.rechunk(1),
        ChatEvent.projectRun(),
        Stream.runCollect,
        Effect.provide(ScriptedModel.layer([{ text: JSON.stringify(long) }], { chunkSize: 10 }))
      )
    const chunks = yield* Stream.fromIterable(events).pipe(UiMessages.fromEvents(), Stream.runCollect)
    const data = chunks.flatMap((chunk) => (chunk.type === "data-partial-output" ? [chunk.data] : []))
    assert.deepStrictEqual(data.at(-1), long)
    const sent = data.reduce<number>((sum, value) => sum + JSON.stringify(value).length, 0)
    assert.isBelow(sent, 20 * JSON.stringify(long).length)
  })
})
