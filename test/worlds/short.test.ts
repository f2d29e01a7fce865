/** WORLD-5: short scripts with trouble at some of their steps. `npm run worlds -- --exhaustive` has it at each of them. */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import * as short from "./short.ts"

describe("WORLD-5 short scripts", () => {
  it.live("each of them ends as wanted without trouble, and has hundreds of steps", () =>
    Effect.forEach(short.names, (name) =>
      Effect.map(short.run(name, [], { compare: true }), ({ figures }) => {
        assert.isAbove(figures["turns"] ?? 0, 200, name)
        assert.isAbove(figures["storeOperations"] ?? 0, 25, name)
      })
    )
  )

  for (const home of short.homes) {
    it.live(`a kill at every 50th step of a tool call, with ${home}`, () =>
      Effect.gen(function* () {
        const { figures } = yield* short.run("tool", [], { home })
        let killed = 0
        for (let kill = 25; kill < (figures["turns"] ?? 0); kill += 50) {
          killed += (yield* short.run("tool", [{ kill }], { home })).figures["killed"] ?? 0
        }
        assert.isAbove(killed, 4)
      })
    )
  }

  it.live("an operation of the store that fails before it took effect and after it, with a kill soon", () =>
    Effect.gen(function* () {
      for (const fail of [4, 9, 14]) {
        for (const isApplied of [false, true]) {
          const { figures } = yield* short.run("edit", [
            { fail, isApplied },
            { kill: 7, after: fail }
          ])
          assert.deepStrictEqual([figures["storeFailures"], figures["killed"]], [1, 1])
        }
      }
    })
  )

  it.live("WORLD-9 a turn reads the definition of its agent again where the store fails (definition, 15 and 31)", () =>
    Effect.gen(function* () {
      const { figures } = yield* short.run("definition", [])
      for (let fail = 1; fail <= (figures["storeOperations"] ?? 0); fail += 2) {
        yield* short.run("definition", [{ fail, isApplied: false }])
      }
    })
  )
})
