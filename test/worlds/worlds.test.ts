/** WORLD-2, WORLD-3, WORLD-4, WORLD-6: worlds of sessions, and a model beside them. `npm run worlds` runs more of them. */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
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
  ]
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

  it.live("WORLD-2 WORLD-4 forty worlds keep the laws, and show what the model shows", () =>
    Effect.forEach(range(1, 40), (seed) => worlds.run(seed, { onSeen }))
  )

  it.live("WORLD-2 so do twenty small ones, whose users have one process and no trouble", () =>
    Effect.forEach(
      range(1, 27).filter((seed) => seed % 4 !== 2),
      (seed) => worlds.run(seed, { setting: small, onSeen })
    )
  )

  it.live("WORLD-1 a world is the same twice", () =>
    Effect.forEach([61, 62, 63], (seed) => worlds.run(seed, { compare: true }))
  )

  for (const [seed, setting, what] of found) {
    it.live(`WORLD-9 the world ${seed} keeps the laws: ${what}`, () => worlds.run(seed, { setting, compare: true }))
  }
})

/** A wrong version of each rule of the model. */
const wrong: { readonly [Rule in keyof Rules]: Rules[Rule] } = {
  enqueue: (queue, id) => [id, ...queue],
  replace: (queue, id) => [...queue, id],
  taken: (due) => due.at(-1),
  enters: () => true,
  starts: ({ status }) => status === "asked",
  isSettled: (_, __, type) => type === "denied",
  rewound: (said, at) => said.slice(0, at + 1),
  callsAfterRewind: (calls) => calls,
  isRequest: ({ status }) => status === "waits" || status === "asked",
  forked: (from) => ({ ...from, sequence: 0 }),
  afterFailure: (model) => ({ isResumed: false, queue: model.queue.slice(1) }),
  works: (model) => model.isBegun && model.outcome === undefined && model.failure === undefined
}

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
