/** WORLD-9: faults that worlds have found, in small worlds of their own, which other scripts do not change. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Option, Random, Stream } from "effect"
import { Session } from "effect-emissary/session"
import { Simulation } from "effect-emissary/testing"
import * as agents from "./agents.ts"
import type { World } from "./clients.ts"
import { sessions } from "./worlds.ts"

const calmly: Simulation.Trouble = {
  kills: 0,
  pauses: 0,
  stops: 0,
  jumps: 0,
  store: { failures: 0 },
  network: { losses: 0, doubles: 0 }
}

const inWorlds = (
  seeds: ReadonlyArray<number>,
  script: (world: World) => Effect.Effect<unknown, unknown>
): Effect.Effect<unknown, Simulation.SimulationError> =>
  Simulation.run(sessions, {
    seeds,
    processes: 1,
    trouble: calmly,
    compare: false,
    maxTurns: 30_000,
    outside: agents.Ledger.layer,
    script
  })

const use = <A>(
  { any }: World,
  name: string,
  call: (sessions: Session.Session["Service"]) => Effect.Effect<A, Session.SessionError>
) => Effect.flatMap(any, (process) => process.call(name, Effect.flatMap(Session.Session, call)))

const range = (first: number, last: number) => Array.from({ length: last - first + 1 }, (_, index) => first + index)

const nap = (most: number) => Effect.flatMap(Random.nextIntBetween(0, most), Effect.sleep)

describe("WORLD-9 edits of messages whose turns begin meanwhile", () => {
  it.live("end, and a message that was dropped for its edit is not answered", () =>
    inWorlds(range(61, 100), (world) =>
      Effect.gen(function* () {
        const looking = yield* Effect.forEach([1, 2, 3, 4, 5, 6], () =>
          Effect.forkChild(
            Effect.forever(Effect.andThen(nap(4), Effect.exit(use(world, "look", ({ state }) => state("a")))))
          )
        )
        const user = Effect.fnUntraced(function* (name: string) {
          let last = ""
          for (let n = 1; n <= 12; n++) {
            const messageId = `${name}${n}`
            const input = `a/${messageId}|${(yield* Random.nextBoolean) ? "pay" : "once"}`
            const isEdit = last !== "" && (yield* Random.next) < 0.6
            const call = isEdit
              ? use(world, "edit", ({ edit }) => edit("a", { messageId: last, input, newMessageId: messageId }))
              : use(world, "send", ({ send }) => send("a", input, { messageId }))
            yield* Effect.exit(call)
            if ((yield* Random.next) < 0.2)
              yield* Effect.exit(use(world, "interrupt", ({ interrupt }) => interrupt("a")))
            last = messageId
            yield* nap(6)
          }
        })
        yield* Effect.all([user("x"), user("y")], { concurrency: "unbounded" })
        yield* Effect.forEach(looking, Fiber.interrupt)
        yield* Effect.sleep("30 seconds")
        const state = Option.getOrThrow(yield* use(world, "state", ({ state }) => state("a")))
        const entries = yield* use(world, "events", ({ events }) =>
          Stream.runCollect(Stream.take(events("a"), state.sequence))
        )
        const dropped = new Set<string>()
        for (const { event } of entries) {
          if (event._tag === "MessageDropped") dropped.add(event.messageId)
          if (event._tag === "MessageReceived") dropped.delete(event.messageId)
          if (event._tag === "RunEvent" && event.messageId !== undefined)
            assert.isFalse(dropped.has(event.messageId), event.messageId)
        }
      })
    )
  )
})
