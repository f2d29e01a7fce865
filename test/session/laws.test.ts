import { assert, describe, it } from "@effect/vitest"
import { Context, Effect, Exit, Layer, Schema, Scope } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { Agent, Conversation, Run } from "effect-emissary"
import { Session } from "effect-emissary/session"
import { ScriptedModel } from "effect-emissary/testing"
import { random } from "../random.ts"
import { stateOf, store, turns } from "./sessions.ts"

const number = { parameters: Schema.Struct({ n: Schema.Finite }), success: Schema.String }

const toolkit = Toolkit.make(
  Tool.make("free", number),
  Tool.make("asked", { ...number, needsApproval: true }),
  Tool.make("odd", { ...number, needsApproval: ({ n }) => n % 2 === 1 })
)

const agent = Agent.make("worker", { instructions: "You work.", toolkit })

const work = (name: string) => (input: { readonly n: number }) =>
  input.n === 7 ? Effect.die(new Error("seven")) : Effect.succeed(`${name} ${input.n}`)

const handlers = toolkit.toLayer({ free: work("free"), asked: work("asked"), odd: work("odd") })

/** The turns of a model, and which calls are approved. */
const scriptOf = (seed: number) => {
  const { below, chance, pick, times } = random(seed)
  const turn = (): ScriptedModel.Turn =>
    chance(0.45)
      ? { text: `answer ${below(10)}` }
      : {
          ...(chance(0.5) && { text: `thinking ${below(10)}` }),
          toolCalls: times(1 + below(3), () => ({
            name: pick(["free", "asked", "odd", "missing"]),
            params: chance(0.9) ? { n: below(9) } : { m: 1 }
          }))
        }
  const turns = times(40, turn)
  return {
    // A request that was cut off has the same answer when it is made again
    model: () =>
      ScriptedModel.layer(
        ({ messages }) => turns[messages.filter(({ role }) => role === "assistant").length] ?? { text: "the end" }
      ),
    inputs: times(1 + below(4), () => `message ${below(10)}`),
    restarts: () => random(seed + 2),
    decide: (requests: ReadonlyArray<Run.Request>) =>
      requests.map((request) => ({ ...request, approved: random(seed + request.callId.length).chance(0.7) }))
  }
}

type Script = ReturnType<typeof scriptOf>

const plain = ({ decide, inputs, model }: Script) =>
  Effect.gen(function* () {
    let state: Run.State | undefined
    for (const input of inputs) {
      let result = state === undefined ? yield* agent.run(input) : yield* agent.resume(state, { input })
      while (result.outcome === "AwaitingApproval") {
        result = yield* agent.resume(result.state, { decisions: decide(Run.requests(result.state)) })
      }
      state = result.state
    }
    return state === undefined ? Conversation.empty : state.conversation
  }).pipe(Effect.provide([model(), handlers]))

/** The same in a session, whose layer is closed and built again at some moments. */
const inSession = (script: Script) =>
  Effect.gen(function* () {
    const { decide, inputs } = script
    const { below, chance } = script.restarts()
    const stored = yield* store
    const model = yield* Layer.build(script.model())
    const layer = Session.layer([agent]).pipe(Layer.provide([stored, Layer.succeedContext(model), handlers]))
    let scope = yield* Scope.make()
    const open = Effect.suspend(() => Layer.buildWithScope(Layer.fresh(layer), scope))
    let sessions = Context.get(yield* open, Session.Session)
    const restart = Effect.gen(function* () {
      if (!chance(0.3)) return
      for (let i = below(20); i > 0; i--) yield* Effect.yieldNow
      yield* Scope.close(scope, Exit.void)
      scope = yield* Scope.make()
      sessions = Context.get(yield* open, Session.Session)
    })
    for (const input of inputs) {
      const { cursor } = yield* sessions.send("s", input)
      yield* restart
      yield* turns(sessions, "s", 1, cursor)
      yield* restart
      let state = yield* stateOf(sessions, "s")
      while (state.status === "waiting") {
        const [first, ...others] = decide(state.requests)
        if (first === undefined) break
        const before = state.cursor
        yield* sessions.decide("s", [first, ...others])
        yield* restart
        yield* turns(sessions, "s", 1, before)
        yield* restart
        state = yield* stateOf(sessions, "s")
      }
    }
    const history = yield* sessions.history("s")
    yield* Scope.close(scope, Exit.void)
    return history
  })

describe("DUR-1 laws of sessions", () => {
  it.live("L5 a session has the transcript of the plain driver over the same script, whenever its process stops", () =>
    Effect.gen(function* () {
      for (let seed = 1; seed <= 20; seed++) {
        const script = scriptOf(seed)
        const [expected, found] = [yield* plain(script), yield* Effect.scoped(inSession(script))]
        assert.deepStrictEqual(Conversation.transcript(found), Conversation.transcript(expected), `seed ${seed}`)
      }
    })
  )
})
