import { assert, describe } from "@effect/vitest"
import { Effect, Layer, Result, Schema } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { Agent, AgentDefinition, AgentEvent, Run, Session, ToolContract, VersionedStore } from "effect-emissary"
import { Json, JsonSchema } from "effect-emissary/payload"
import { Plan, Step } from "effect-emissary/plan"
import { ScriptedModel } from "effect-emissary/testing"
import { vi } from "vitest"
import { test } from "../test.ts"
import { call } from "./fixtures.ts"

const Pay = Tool.make("pay", {
  parameters: Schema.Struct({ amount: Schema.Finite }),
  success: Schema.String,
  needsApproval: true
})
const kit = Toolkit.make(Pay)

const messageOf = <R>(refused: Effect.Effect<unknown, { readonly message: string }, R>) =>
  Effect.map(Effect.flip(Effect.scoped(refused)), ({ message }) => message)

describe("RIGHT-8 decisions of a wrong shape", () => {
  test("RIGHT-8 each is a typed error of the run, and nothing runs", function* () {
    const paid: Array<number> = []
    const handlers = kit.toLayer({ pay: ({ amount }) => Effect.sync(() => (paid.push(amount), "paid")) })
    const clerk = Agent.make("clerk", { toolkit: kit })
    const program = Effect.gen(function* () {
      const waiting = yield* clerk.run("Pay")
      const [request] = Run.requests(waiting.state)
      assert(request !== undefined)
      const wrong: ReadonlyArray<unknown> = [
        {},
        { ...request, approved: true },
        "yes",
        null,
        [null],
        [request.callId],
        [{ ...request, approved: "true" }]
      ]
      for (const decisions of wrong) {
        // @ts-expect-error -- the values of a form
        const error = yield* Effect.flip(clerk.resume(waiting.state, { decisions }))
        assert.strictEqual(error.reason._tag, "InvalidDecision", JSON.stringify(decisions))
        assert.include(error.message, `Waiting: "c"`)
      }
      assert.deepStrictEqual(paid, [])
    })
    yield* Effect.provide(program, [handlers, ScriptedModel.layer([{ toolCalls: [call("c", "pay", { amount: 1 })] }])])
  })

  test("RIGHT-8 the same for a plan", function* () {
    const program = Effect.gen(function* () {
      const clerk = Agent.make("clerk", { toolkit: kit })
      const plan = yield* Plan.bind(yield* Plan.make("p", [Step.make("pay", { target: clerk })]))
      const waiting = yield* plan.run("Pay")
      for (const decisions of [{}, null, [null]]) {
        // @ts-expect-error -- the values of a form
        const error = yield* Effect.flip(plan.resume(waiting.state, { decisions }))
        assert.strictEqual(error.reason._tag, "InvalidDecision")
      }
    })
    yield* Effect.provide(program, [
      kit.toLayer({ pay: () => Effect.succeed("paid") }),
      ScriptedModel.layer([{ toolCalls: [call("c", "pay", { amount: 1 })] }])
    ])
  })
})

describe("RIGHT-8 names", () => {
  const names = ["../../etc", "a/b", "a\\b", "a\u202Eb", "a\u200bb", "a\nb", "a\u0000b"]

  test("RIGHT-8 an agent whose name has a path separator or a hidden character is refused", function* () {
    for (const name of names) {
      const made = yield* Effect.flip(AgentDefinition.make({ name }))
      assert.match(made.message, /\/name: expected a name without path separators and hidden characters/)
      const json = { version: 2, name }
      assert.strictEqual((yield* Effect.flip(AgentDefinition.codec.decode(json)))._tag, "PayloadError")
      const error = yield* Effect.flip(
        Effect.provide(Agent.make(name).run("Go"), ScriptedModel.layer([{ text: "no" }]))
      )
      assert.include(error.message, "expected a name without path separators")
    }
    yield* AgentDefinition.make({ name: "Клерк 2 (EU)" })
  })

  test("RIGHT-8 a toolkit with two tools of one name is refused when the agent is built", function* () {
    const tools = [Pay, Tool.make("pay", { success: Schema.String })]
    class Clerk extends Agent.Service<Clerk>()("clerk-of-two", { toolkit: tools }) {}
    const handlers = kit.toLayer({ pay: () => Effect.succeed("paid") })
    const built = Layer.build(Layer.provide(Clerk.layer, [handlers, ScriptedModel.layer([])]))
    const error = yield* Effect.flip(Effect.scoped(built))
    assert.strictEqual(error._tag, "AgentError")
    assert.include(error.message, `"pay"`)
    const run = Agent.make("clerk", { toolkit: tools }).run("Go")
    assert.include((yield* Effect.flip(Effect.provide(run, [handlers, ScriptedModel.layer([])]))).message, `"pay"`)
  })

  const strange = { "a\u202eb": "not seen", "p\u0430y": "two scripts", "a\u200bb": "not seen", "a\nb": "not seen" }
  for (const [name, problem] of Object.entries(strange)) {
    test(`RIGHT-22 a name from code is refused when the agent is built: ${JSON.stringify(name)}`, function* () {
      const made = Tool.make(name, { success: Schema.String })
      const own = Toolkit.make(made)
      const handlers = own.toLayer({ [name]: () => Effect.succeed("no") })
      const world = Layer.merge(handlers, ScriptedModel.layer([]))
      class Odd extends Agent.Service<Odd>()("with-odd-tool", { toolkit: own }) {}
      class Named extends Agent.Service<Named>()(name, { instructions: "x" }) {}
      const messages = [
        yield* messageOf(Effect.provide(Layer.build(Odd.layer), world)),
        yield* messageOf(Effect.provide(Layer.build(Named.layer), world)),
        yield* messageOf(Effect.provide(Agent.make("with-odd-tool", { toolkit: own }).run("Go"), world)),
        yield* messageOf(Effect.provide(Agent.make(name).run("Go"), world)),
        yield* messageOf(Agent.encode(Agent.make("with-odd-tool", { toolkit: own }))),
        yield* messageOf(Agent.encode(Agent.make(name)))
      ]
      for (const message of messages) {
        assert.include(message, problem)
        if (problem === "not seen") assert.notInclude(message, name)
      }
      const plan = yield* Plan.make("plan", [Step.make("a", { target: () => Effect.succeed("b") })])
      const error = yield* Effect.flip(Effect.provide(Plan.bind(plan, { toolkit: own }), world))
      assert.strictEqual(error._tag, "ToolNameError")
    })
  }

  test("RIGHT-8 two services of one name differ by key", function* () {
    class One extends Agent.Service<One>()("twin", { instructions: "one" }) {}
    class Two extends Agent.Service<Two>()("twin", { instructions: "two" }) {}
    assert.strictEqual(One.key, "effect-emissary/Agent/twin")
    assert.notStrictEqual(String(One.key), String(Two.key))
    const program = Effect.all([One, Two]).pipe(
      Effect.flatMap((agents) => Effect.forEach(agents, (agent) => agent.ask("Who?"))),
      Effect.provide([One.layer, Two.layer]),
      Effect.provide(
        ScriptedModel.layer([
          { text: "1", expect: { systemText: "one" } },
          { text: "2", expect: { systemText: "two" } }
        ])
      )
    )
    assert.deepStrictEqual(yield* program, ["1", "2"])
  })

  test.live("RIGHT-8 the id of a message is a text of at most 1,024 characters", function* () {
    const agent = Agent.make("chat")
    const program = Effect.gen(function* () {
      const sessions = yield* Session.Session
      const error = yield* Effect.flip(sessions.send("s", "Hi", { messageId: "x".repeat(1_000_000) }))
      assert.strictEqual(error.reason._tag, "InputInvalid")
      assert.include(error.message, "expected a messageId of at most 1024 characters, got 1000000")
      yield* sessions.send("s", "Hi", { messageId: "x".repeat(1024) })
    })
    yield* Effect.provide(
      program,
      Session.layer([agent]).pipe(Layer.provide([VersionedStore.layerMemory, ScriptedModel.layer([{ text: "ok" }])]))
    )
  })
})

describe("RIGHT-8 words and secrets", () => {
  test("RIGHT-8 a changed description has a digest of its own, and is reported", function* () {
    const was = yield* ToolContract.make({ name: "find", parameters: { type: "object" }, description: "Finds" })
    const now = yield* ToolContract.make({ name: "find", parameters: { type: "object" }, description: "Sends" })
    assert.strictEqual(was.digest, now.digest)
    const [before, after] = [yield* ToolContract.descriptionDigest(was), yield* ToolContract.descriptionDigest(now)]
    assert.match(before, /^sha256:[0-9a-f]{64}$/)
    assert.notStrictEqual(before, after)
    assert.strictEqual(before, yield* ToolContract.descriptionDigest({ name: "find", description: "Finds" }))
    assert.deepStrictEqual(ToolContract.compare(was, now), [
      { path: "/description", was: '"Finds"', now: '"Sends"', breaking: false }
    ])
  })

  test("RIGHT-8 patternProperty is noticed as a misspelling", function* () {
    const error = yield* Effect.flip(JsonSchema.make({ type: "object", patternProperty: { "^a": false } }))
    assert.include(error.message, `Did you mean "patternProperties"?`)
  })

  test("RIGHT-8 totp and pin_code are names of secrets", function* () {
    for (const name of ["totp", "pin_code", "pinCode", "TOTP"]) {
      assert.isTrue(
        Result.isFailure(yield* Effect.result(Agent.encode(Agent.make("a", { modelOptions: { [name]: "1" } }))))
      )
      assert.strictEqual(Json.findSecret({ [name]: "1" })._tag, "Some")
    }
  })
})

describe("RIGHT-8 ScriptedModel", () => {
  test("RIGHT-8 L10 the elements that are copied to stream a text are proportional to it", function* () {
    const text = "x".repeat(16_000)
    const slice = Array.prototype.slice
    let copied = 0
    const spy = vi.spyOn(Array.prototype, "slice").mockImplementation(function (this: Array<unknown>, ...range) {
      const part = slice.apply(this, range)
      copied += part.length
      return part
    })
    const run = AgentEvent.result(Agent.make("a").stream("Go"))
    const result = yield* Effect.ensuring(
      Effect.provide(run, ScriptedModel.layer([{ text }])),
      Effect.sync(() => spy.mockRestore())
    )
    assert.strictEqual(result.text, text)
    assert.isBelow(copied, 20 * text.length)
  })
})
