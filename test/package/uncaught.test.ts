import { assert, describe, it } from "@effect/vitest"
import { Cause, Effect, Schema } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { AgentError } from "effect-emissary"
import { Plan, PlanError, Step } from "effect-emissary/plan"
import { ScriptedModel } from "effect-emissary/testing"
import { Agent } from "effect-emissary"
import { inspect } from "node:util"
import { requireBuild, root, run } from "./run.ts"
import { test } from "../test.ts"

requireBuild()

/** The programs of a stranger: the error of the run has no handler. Each holds texts that end with SECRET. */
const programs = {
  "an agent whose model fails": `
    import { Effect, Schema } from "effect"
    import { Tool, Toolkit } from "effect/ai"
    import { Agent } from "effect-emissary"
    import { ScriptedModel } from "effect-emissary/testing"
    const toolkit = Toolkit.make(Tool.make("pay", { parameters: Schema.Struct({ iban: Schema.String }), success: Schema.String }))
    const Tools = toolkit.toLayer({ pay: () => Effect.succeed("RESULT-SECRET") })
    const model = ScriptedModel.layer([
      { text: "TEXT-SECRET", toolCalls: [{ name: "pay", params: { iban: "ARGUMENT-SECRET" } }] },
      { fail: { reason: "InternalProviderError" } }
    ])
    await Agent.make("a", { instructions: "INSTRUCTIONS-SECRET", toolkit, retry: { times: 0 } })
      .run("INPUT-SECRET", { context: { tenant: "CONTEXT-SECRET" } })
      .pipe(Effect.provide([Tools, model]), Effect.runPromise)`,
  "an agent that waits for an approval": `
    import { Effect, Schema } from "effect"
    import { Tool, Toolkit } from "effect/ai"
    import { Agent } from "effect-emissary"
    import { ScriptedModel } from "effect-emissary/testing"
    const Pay = Tool.make("pay", { parameters: Schema.Struct({ iban: Schema.String }), success: Schema.String, needsApproval: true })
    const toolkit = Toolkit.make(Pay)
    const model = ScriptedModel.layer([{ toolCalls: [{ name: "pay", params: { iban: "ARGUMENT-SECRET" } }] }])
    await Agent.make("a", { toolkit })
      .ask("INPUT-SECRET")
      .pipe(Effect.provide([toolkit.toLayer({ pay: () => Effect.succeed("x") }), model]), Effect.runPromise)`,
  "a plan whose step fails": `
    import { Effect } from "effect"
    import { Plan, Step } from "effect-emissary/plan"
    const one = Step.make("one", { target: () => Effect.succeed("OUTPUT-SECRET") })
    const two = Step.make("two", { target: () => Effect.fail("no") })
    const plan = await Effect.runPromise(Effect.flatMap(Plan.make("p", [one, two]), (plan) => Plan.bind(plan)))
    await Plan.run(plan, "INPUT-SECRET").pipe(Effect.runPromise)`
}

const sentences = {
  "an agent whose model fails": `Agent "a": expected an answer from the model, got InternalProviderError`,
  "an agent that waits for an approval": `Run of agent "a": expected an answer, got the outcome AwaitingApproval`,
  "a plan whose step fails": `Plan "p": Step "two" failed with Error`
}

describe("an error without a handler", () => {
  for (const [name, program] of Object.entries(programs)) {
    it(`RIGHT-18 L8 Node prints the sentence and no content: ${name}`, async () => {
      const { code, output } = await run("node", ["--input-type=module", "-e", program], root)
      assert.strictEqual(code, 1)
      assert.deepStrictEqual(output.match(/\w+-SECRET/g), null)
      const lines = output.split("\n")
      // a source line of Node, the sentence, ten frames and the reason
      assert.isBelow(lines.length, 35, output)
      const sentence = sentences[name as keyof typeof sentences] // the keys of both records are the same
      assert.isTrue(
        lines.slice(0, 6).some((line) => line.includes(sentence)),
        output
      )
    })
  }
})

const secret = "SECRET"
const toolkit = Toolkit.make(
  Tool.make("pay", { parameters: Schema.Struct({ iban: Schema.String }), success: Schema.String, needsApproval: true })
)
const agent = Agent.make("a", { instructions: secret, toolkit })
const Tools = toolkit.toLayer({ pay: () => Effect.succeed(secret) })
const waits = { toolCalls: [{ name: "pay", params: { iban: secret } }] } as const

const failedAgent = agent
  .run(secret, { retry: { times: 0 } })
  .pipe(Effect.provide([Tools, ScriptedModel.layer([{ fail: { reason: "InternalProviderError" } }])]), Effect.flip)

const incomplete = agent.ask(secret).pipe(Effect.provide([Tools, ScriptedModel.layer([waits])]), Effect.flip)

const failedPlan = Effect.gen(function* () {
  const one = Step.make("one", { target: () => Effect.succeed(secret) })
  const two = Step.make("two", { target: () => Effect.fail("no") })
  const plan = yield* Plan.bind(yield* Plan.make("p", [one, two]))
  return yield* Effect.flip(Plan.run(plan, secret))
})

describe("an error with a state, printed", () => {
  test("RIGHT-18 L8 JSON, inspection, causes and copies show the sentence and neither state nor content", function* () {
    for (const error of [
      yield* failedAgent,
      yield* incomplete,
      yield* failedPlan,
      new Step.Conclude({ answer: secret })
    ]) {
      const json = JSON.stringify(error)
      for (const text of [
        json,
        String(error),
        Cause.pretty(Cause.fail(error)),
        inspect(error, { depth: Infinity }),
        inspect(error, { depth: Infinity, customInspect: false }),
        inspect({ ...error }, { depth: Infinity, customInspect: false }),
        JSON.stringify({ ...error }),
        JSON.stringify(Cause.fail(error))
      ]) {
        assert.notInclude(text, secret)
        assert.notMatch(text, /\bstate"?:/)
      }
      assert.strictEqual(JSON.parse(json).message, error.message)
      assert.include(inspect(error).split("\n").slice(0, 3).join(), error.message.slice(0, 20))
    }
  })

  test("RIGHT-18 the errors have their states, and their Schemas write and read them", function* () {
    const agentError = yield* failedAgent
    const runIncomplete = yield* incomplete
    const planError = yield* failedPlan
    assert(agentError instanceof AgentError.AgentError && runIncomplete instanceof AgentError.RunIncomplete)
    const readBack = <T>(schema: Schema.Codec<T, unknown>, error: T) => {
      const codec = Schema.toCodecJson(schema)
      return Effect.flatMap(Schema.encodeEffect(codec)(error), (json) =>
        Schema.decodeUnknownEffect(codec)(JSON.parse(JSON.stringify(json)))
      )
    }
    const agentBack = yield* readBack(AgentError.AgentError, agentError)
    assert.strictEqual(agentBack.state?.runId, agentError.state?.runId)
    assert.isDefined(agentBack.state)
    assert.notInclude(inspect(agentBack, { customInspect: false, depth: Infinity }), secret)
    const incompleteBack = yield* readBack(AgentError.RunIncomplete, runIncomplete)
    assert.strictEqual(incompleteBack.result.state.runId, runIncomplete.result.state.runId)
    const { state: _, conversation: __, ...end } = runIncomplete.result
    assert.deepInclude(incompleteBack.result, end)
    const planBack = yield* readBack(PlanError.PlanError, planError)
    assert.strictEqual(planBack.state?.runId, planError.state?.runId)
    assert.isDefined(planBack.state)
    // an error without a state has none when it was written and read
    const early = new AgentError.AgentError({ agent: "a", reason: { _tag: "MaxDepth", limit: 8 } })
    assert.strictEqual((yield* readBack(AgentError.AgentError, early)).state, undefined)
  })
})
