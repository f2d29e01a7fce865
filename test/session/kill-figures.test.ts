/** The figures of the kill tests count what is wrong. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Stream } from "effect"
import * as agents from "./kill/agents.ts"
import type { Operations, Said, Seen } from "./kill/door.ts"
import * as ledger from "./kill/ledger.ts"
import type { Record } from "./kill/load.ts"
import * as readers from "./kill/readers.ts"
import * as verdict from "./kill/verdict.ts"

const stored = (...texts: ReadonlyArray<string>): ReadonlyArray<Seen> =>
  texts.map((text, index) => ({ sequence: index + 1, cursor: `a.${index + 1}`, text }))

const door = (events: ReadonlyArray<Seen>, said: ReadonlyArray<Said>): Operations => ({
  run: () => Effect.succeed({ outcome: "Completed", output: "" }),
  read: () => Effect.succeed(undefined),
  send: () => Effect.succeed(1),
  decide: () => Effect.succeed(0),
  resume: () => Effect.void,
  interrupt: () => Effect.succeed(false),
  events: () => Stream.fromIterable(events),
  state: () => Effect.succeed({ status: "idle", sequence: events.length, queue: 0, requests: 0 }),
  history: () => Effect.succeed(said)
})

const user = (text: string): Said => ({ role: "user", text })
const answer = (text: string): Said => ({ role: "assistant", text: `done ${text}` })

const said = [user("s1.1"), answer("s1.1"), user("s1.2"), answer("s1.2")]

const record = (changes: Partial<Record> = {}): Record => ({
  id: "s1",
  agent: "desk",
  acknowledged: ["s1.1", "s1.2"],
  readers: [{ seen: ["a", "b"], faults: [] }],
  progress: { settled: true, waiting: false },
  errors: new Map(),
  interrupted: false,
  settled: true,
  ...changes
})

const line = (key: string, phase: ledger.Line["phase"], work: ledger.Line["work"] = "once"): ledger.Line => ({
  at: 0,
  runner: "runner-1",
  pid: 1,
  key,
  work,
  phase
})

const count = Effect.fnUntraced(function* (
  changes: { events?: ReadonlyArray<Seen>; said?: ReadonlyArray<Said>; record?: Partial<Record> },
  lines: ReadonlyArray<ledger.Line> = []
) {
  const operations = door(changes.events ?? stored("a", "b"), changes.said ?? said)
  const { disorder, failed, lost, startedTwice, stuck } = yield* verdict.of(
    operations,
    [record(changes.record)],
    lines,
    []
  )
  return [lost, startedTwice, stuck, disorder, failed].map(({ length }) => length)
})

describe("DUR-7 the figures of the kill tests", () => {
  it.effect("are 0 where nothing is wrong, an idempotent tool that started twice included", () =>
    Effect.gen(function* () {
      const again = line("s1.1/desk/0/0", "start", "idempotent")
      assert.deepStrictEqual(yield* count({}, [again, again, line("s1.1/desk/0/1", "start")]), [0, 0, 0, 0, 0])
    })
  )

  it.effect("count messages that are missing, doubled, or out of order, and those without an answer", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* count({ said: said.slice(2) }), [1, 0, 0, 0, 0])
      assert.deepStrictEqual(yield* count({ said: [...said, user("s1.1")] }), [1, 0, 0, 0, 0])
      assert.deepStrictEqual(yield* count({ said: [...said.slice(2), ...said.slice(0, 2)] }), [1, 0, 0, 0, 0])
      assert.deepStrictEqual(yield* count({ said: said.slice(0, 3) }), [0, 0, 1, 0, 0])
    })
  )

  it.effect("count calls that started twice, and sessions that did not end their work", () =>
    Effect.gen(function* () {
      const pay = line("s1.1/desk/0/0", "start")
      assert.deepStrictEqual(yield* count({}, [pay, line(pay.key, "end"), pay]), [0, 1, 0, 0, 0])
      assert.deepStrictEqual(yield* count({ record: { settled: false } }), [0, 0, 1, 0, 0])
    })
  )

  it.effect("count events that are missing, changed, or those of failed turns", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* count({ events: stored("a", "c") }), [0, 0, 0, 1, 0])
      assert.deepStrictEqual(yield* count({ events: stored("a") }), [0, 0, 0, 1, 0])
      const failure = `{"_tag":"TurnFailed"}`
      const reader = { seen: ["a", failure], faults: [] }
      assert.deepStrictEqual(
        yield* count({ events: stored("a", failure), record: { readers: [reader] } }),
        [0, 0, 0, 0, 1]
      )
    })
  )

  it.effect("KEEP-10 count jobs with another result, or two, and steps that began after they were completed", () =>
    Effect.gen(function* () {
      const right = yield* agents.expected(agents.job, "s1.1")
      assert.match(right, /^done s1\.1 as \d+$/)
      const finished = (at: number) =>
        `{"_tag":"StepFinished","record":{"step":"ship","finishedAt":"${new Date(at).toISOString()}"}}`
      const of = Effect.fnUntraced(function* (results: ReadonlyArray<string>, at: number, value: unknown = right) {
        const events = stored("a", finished(at))
        const operations: Operations = {
          ...door(events, [user("s1.1"), { role: "assistant", text: right }]),
          read: () => Effect.succeed({ id: "s1", value })
        }
        const job = record({
          agent: agents.job,
          acknowledged: ["s1.1"],
          job: { results: new Set(results) },
          readers: []
        })
        const lines = [{ ...line("s1.1/ship", "start", "step"), at: 5 }]
        const { ranAgain, wrong } = yield* verdict.of(operations, [job], lines, [])
        return [wrong.length, ranAgain.length]
      })
      assert.deepStrictEqual(yield* of([right], 5), [0, 0])
      assert.deepStrictEqual(yield* of(["done s1.1 as 7"], 5), [1, 0])
      assert.deepStrictEqual(yield* of([right, "other"], 5), [1, 0])
      assert.deepStrictEqual(yield* of([right], 4), [0, 1])
      assert.deepStrictEqual(yield* of([right], 5, "other"), [1, 0])
    })
  )

  it("KEEP-10 the time to the next work is that of sessions that the kill hit, without other trouble", () => {
    const by = (pid: number, at: number, key: string): ledger.Line => ({ ...line(key, "start"), pid, at })
    const lines = [by(1, 5, "s1.1/desk/0"), by(2, 12, "s2.1/desk/0"), by(2, 30, "s1.1/desk/0")]
    const kills = [{ pid: 1, at: 10, ready: 25 }]
    assert.deepStrictEqual(ledger.delays(lines, kills, [], "at"), [20])
    assert.deepStrictEqual(ledger.delays(lines, kills, [], "ready"), [5])
    assert.deepStrictEqual(ledger.delays(lines, kills, [{ from: 20, to: 40 }], "at"), [])
    assert.deepStrictEqual(ledger.delays(lines.slice(1), kills, [], "at"), [])
  })

  it("work is begun from an old state where another process had gone further before the process was continued", () => {
    const by = (pid: number, at: number, key: string): ledger.Line => ({ ...line(key, "start"), pid, at })
    const begun = (...lines: ReadonlyArray<ledger.Line>) =>
      ledger.begunFromOldState(lines, [{ pid: 1, from: 10, to: 20 }]).length
    const further = by(2, 15, "s1.2/desk/1/0")
    assert.strictEqual(begun(by(1, 9, "s1.2/desk/0/0"), further, by(1, 21, "s1.2/desk/0/1")), 1)
    assert.strictEqual(begun(further, by(1, 21, "s1.1/desk/3/0")), 1)
    assert.strictEqual(begun(further, by(1, 21, "s1.2/desk/2"), by(1, 22, "s2.1/desk/0"), by(3, 23, "s1.1/desk/0")), 0)
  })

  it("a reader notices events that come twice, too early, or with another content", () => {
    const faultsOf = (...events: ReadonlyArray<Seen>) => {
      const reader: readers.Reader = { seen: [], faults: [] }
      for (const event of events) readers.take("s1", reader, event)
      return reader.faults.length
    }
    const [a, b, c] = stored("a", "b", "c")
    assert(a !== undefined && b !== undefined && c !== undefined)
    assert.deepStrictEqual([faultsOf(a, b, c), faultsOf(a, a, b), faultsOf(a, c), faultsOf(b, a)], [0, 1, 1, 2])
    assert.strictEqual(faultsOf(a, b, { sequence: 1, cursor: "a.1", text: "other" }), 1)
  })
})
