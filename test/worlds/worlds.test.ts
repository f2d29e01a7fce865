/** WORLD-2, WORLD-3, WORLD-4, WORLD-6: worlds of sessions, and a model beside them. `npm run worlds` runs more of them. */
import { assert, describe, it } from "@effect/vitest"
import { DateTime, Effect, Layer, Random } from "effect"
import { Message } from "effect-emissary"
import { Session } from "effect-emissary/session"
import { Simulation } from "effect-emissary/testing"
import * as agents from "./agents.ts"
import * as clients from "./clients.ts"
import { verdict } from "./laws.ts"
import { type Rules, rules } from "./model.ts"
import * as worlds from "./worlds.ts"

/** Seeds that went wrong once, each with what was mended. */
const found: ReadonlyArray<readonly [seed: number, setting: Partial<worlds.Setting>, what: string]> = [
  [
    1008,
    { processes: 1, calls: 3, kills: 0, pauses: 0, stops: 0, jumps: 1, failures: 34, losses: 0, more: 0 },
    "an edit stops the turn of a message that was taken after the edit had looked"
  ],
  [
    33,
    { processes: 1, calls: 6, kills: 3, pauses: 0, stops: 1, jumps: 1, failures: 10, losses: 20, more: 0 },
    "a message that is edited while its turn begins is not answered with its old text"
  ],
  [
    2139,
    {
      processes: 1,
      calls: 5,
      kills: 7,
      pauses: 3,
      stops: 1,
      jumps: 3,
      failures: 60,
      conflicts: 0,
      losses: 40,
      more: 0
    },
    "a reader in a process that was paused does not take a session that another one has removed for a damaged one"
  ],
  [17, { more: 1, releases: 2 }, "an interruption of a turn that another process has left ends the turn"],
  [
    2545,
    { processes: 2, calls: 5, kills: 0, pauses: 0, stops: 1, jumps: 0, failures: 10, losses: 0, more: 1, releases: 1 },
    "a turn fails where a release has no tool for a call that is open (the laws were wrong)"
  ],
  [
    197,
    {},
    "a removal that had listed the values of a session before its head was there does not leave the head alone"
  ],
  [
    2971,
    {},
    "nor where the removal dies in the middle, and the process that began the session is stopped right after its head"
  ],
  [
    107,
    { calls: 5, kills: 4, stops: 0, jumps: 0 },
    "an interruption stops the turn that another process has left, also while an edit has paused the session"
  ],
  [1439, {}, "an interruption whose process takes the owner for dead, and then for alive, fails and can be sent again"],
  [4301, {}, "so does an interruption in a process that closes"],
  [774, { failures: 0, losses: 0 }, "no turn begins until the last of several calls that pause a session has ended"],
  [870, { failures: 0, losses: 10 }, "nor until two edits have ended"],
  [2664, {}, "a screen is empty when its session is gone (the worlds were wrong)"]
]

const seen: Array<worlds.Seen> = []

const small = {
  processes: 1,
  sessions: 1,
  calls: 12,
  kills: 0,
  pauses: 0,
  stops: 0,
  jumps: 0,
  failures: 0,
  conflicts: 0,
  losses: 0,
  more: 0
}

describe("WORLD-6 worlds of sessions", () => {
  const range = (first: number, last: number) => Array.from({ length: last - first + 1 }, (_, index) => first + index)
  const onSeen = (one: worlds.Seen) => void seen.push(one)

  it.live("WORLD-2 WORLD-4 fourteen worlds keep the laws, and show what the model shows", () =>
    Effect.forEach([...range(1, 10), ...range(16, 19)], (seed) => worlds.run(seed, { onSeen }))
  )

  it.live("WORLD-2 so do forty-six small ones, whose users have one process and no trouble", () =>
    Effect.forEach(
      range(1, 61).filter((seed) => seed % 4 !== 2),
      (seed) => worlds.run(seed, { setting: small, onSeen })
    )
  )

  it.live("WORLD-1 a world is the same twice", () =>
    Effect.forEach([64, 65], (seed) => worlds.run(seed, { compare: true }))
  )

  for (const [seed, setting, what] of found) {
    it.live(`WORLD-9 the world ${seed} keeps the laws: ${what}`, () => worlds.run(seed, { setting, compare: true }))
  }
})

const hour = 3_600_000

describe("WORLD-4 a virtual month", () => {
  const month = Session.layer([agents.worker], { leaseTime: "10 minutes", drainTime: "1 second" }).pipe(
    Layer.provide(agents.layer)
  )

  it.live("of one session keeps the laws", () =>
    Effect.gen(function* () {
      const diary = clients.emptyDiary()
      const { figures } = yield* Simulation.run(month, {
        seeds: [1],
        processes: 2,
        trouble: { kills: 30, pauses: 20, stops: 10, jumps: 10, every: [hour, 20 * hour], pause: [1000, hour] },
        compare: false,
        maxTurns: 500_000,
        outside: agents.Ledger.layer,
        script: (world) =>
          Effect.gen(function* () {
            for (let n = 1; n <= 120; n++) {
              yield* Effect.flatMap(Random.nextIntBetween(hour, 12 * hour), Effect.sleep)
              const message = `a/m${n}`
              const text = `${message}|${n % 3 === 0 ? "pay again" : "once"}`
              yield* clients.perform(world, diary, { kind: "send", session: "a", message, text }, (sessions) =>
                sessions.send("a", text, { messageId: message })
              )
              yield* Effect.sleep("1 minute")
              yield* clients.decide(world, diary, "a")
            }
            yield* world.calm
            yield* Effect.sleep("3 hours")
            const states = yield* clients.rest(world, diary)
            diary.rested = diary.ticks
            for (const [session, { sequence }] of states) yield* clients.readAll(world, diary, { session, sequence })
            const { ended, started } = yield* agents.Ledger
            assert.deepStrictEqual(verdict(diary, { started, ended }), [])
          })
      })
      const events = [...diary.lives.values()].flatMap(({ entries }) => entries)
      const taken = events.flatMap(({ event }) =>
        event._tag === "RunEvent" && event.event._tag === "InputAdded" ? [event.messageId] : []
      )
      assert.deepStrictEqual(
        taken,
        Array.from({ length: 120 }, (_, index) => `a/m${index + 1}`)
      )
      assert.isAbove(figures["milliseconds"] ?? 0, 30 * 24 * hour)
      assert.isAbove(figures["killed"] ?? 0, 20)
    })
  )
})

/** A wrong version of each rule of the model. */
const wrong: { readonly [Rule in keyof Rules]: Rules[Rule] } = {
  enqueue: (queue, id) => [id, ...queue],
  replace: (queue, id) => [...queue, id],
  taken: (due) => due.at(-1),
  steered: ({ queue, steers }) => queue.findLast((id) => steers.includes(id)),
  isSteerable: ({ calls, said }) => calls.length > 0 || said.at(-1)?.isLast === true,
  isPassedOn: ({ isHanding }) => isHanding === true,
  mayHandOver: ({ isHanding }) => isHanding !== true,
  enters: () => true,
  starts: ({ status }) => status === "asked",
  isAnswer: () => false,
  isLoop: (times) => times >= 4,
  isSettled: (_, __, type) => type === "denied",
  rewound: (said, at) => said.slice(0, at + 1),
  callsAfterRewind: (calls) => calls,
  isRequest: ({ status }) => status === "waits" || status === "asked",
  forked: (from) => ({ ...from, sequence: 0 }),
  afterFailure: (model) => ({ isResumed: false, queue: model.queue.slice(1) }),
  works: (model) => model.isBegun && model.outcome === undefined && model.failure === undefined
}

describe("WORLD-9 a turn that fails because the definition has changed (2545)", () => {
  const effects = { started: [], ended: [] }

  /** The number of missing causes of each log that ends with this failure after its first answer with calls of `once` alone, or before it. */
  const problemsOf = (log: {
    readonly releases: ReadonlyArray<string>
    readonly isOpen: boolean
    readonly reason?: string
  }) => {
    const { isOpen, reason = "DefinitionChanged", releases } = log
    const isCall = ({ event }: Session.Entry) => {
      if (event._tag !== "RunEvent" || event.event._tag !== "ModelAnswered") return false
      const calls = Message.toolCalls(event.event.message)
      return calls.length > 0 && calls.every(({ name }) => name === "once")
    }
    const logs = seen.flatMap(({ diary }) =>
      [...diary.lives].flatMap(([life, { entries, session }]) => {
        const place = entries.findIndex(isCall)
        return place < 0 ? [] : [{ diary, life, session, entries: entries.slice(0, isOpen ? place + 1 : place) }]
      })
    )
    assert.isAbove(logs.length, 10)
    return logs.map(({ diary, entries, life, session }) => {
      const last = entries.at(-1)
      assert(last !== undefined)
      const error = { reason, category: "unavailable" as const, message: "" }
      const failed: Session.Entry = {
        ...last,
        cursor: `${life}.${last.sequence + 1}`,
        sequence: last.sequence + 1,
        event: { _tag: "TurnFailed", at: DateTime.makeUnsafe(0), error }
      }
      const lives = new Map([[life, { session, entries: [...entries, failed] }]])
      const { operations, rested } = diary
      const problems = verdict({ ...clients.emptyDiary(), lives, operations, rested, releases }, effects)
      return problems.filter((problem) => problem.endsWith("no client asked for TurnFailed")).length
    })
  }

  it("is explained by a release without the tool of a call that is open, and by nothing else", () => {
    assert.deepStrictEqual([...new Set(problemsOf({ releases: ["renamed"], isOpen: true }))], [0])
    for (const wrong of [
      { releases: [], isOpen: true },
      { releases: ["changed", "unprepared", "dropped", "broken"], isOpen: true },
      { releases: ["renamed", "changed"], isOpen: false },
      { releases: ["renamed"], isOpen: true, reason: "PreparationFailed" }
    ])
      assert.deepStrictEqual([...new Set(problemsOf(wrong))], [1], JSON.stringify(wrong))
  })
})

describe("WORLD-2 the model", () => {
  it("is noticed when one of its rules is wrong", () => {
    const problems = (using: Rules) => seen.flatMap(({ diary, effects }) => verdict(diary, effects, using))
    assert.deepStrictEqual(problems(rules), [])
    const names = Object.keys(wrong) as ReadonlyArray<keyof Rules>
    const unnoticed = names.filter((name) => problems({ ...rules, [name]: wrong[name] }).length === 0)
    assert.deepStrictEqual(unnoticed, [])
    assert.isAtLeast(names.length, 12)
  })

  it("imports nothing of the code but types", async () => {
    const { readFile } = await import("node:fs/promises")
    const text = await readFile(new URL("model.ts", import.meta.url), "utf8")
    const imports = [...text.matchAll(/^import (type )?.* from "(.*)"$/gm)]
    assert.isAbove(imports.length, 0)
    assert.deepStrictEqual(
      imports.filter(([, type, from]) => type === undefined && from !== "./agents.ts").map(([text]) => text),
      []
    )
  })
})
