/** P27, P31, P33, P34, P40: what steps are given. */
import { assert } from "@effect/vitest"
import { Effect, Schema } from "effect"
import { Agent, ToolResult, VersionedStore } from "effect-emissary"
import { Digest } from "effect-emissary/payload"
import { Plan, PlanInvalid, Reference, Step } from "effect-emissary/plan"
import { ScriptedModel } from "effect-emissary/testing"

import { completed } from "../../plan/support.ts"
import { bind, type Rows } from "./row.ts"
import { pluck } from "../../pluck.ts"
import type * as livePlan from "#src/plan/internal/livePlan.ts"

const echo = ({ task }: Step.Input) => Effect.succeed(task)

const answers = (text: string) => Effect.succeed(text)

const writer = Agent.make("writer", { instructions: "Write." })

const image = ToolResult.filePart({ mediaType: "image/png", data: "iVBORw0KGgo=" })

/** Reads what the agent answered last, and then asks it; the reading is the output. */
const readThenAsk = (memory: livePlan.AgentMemory<VersionedStore.VersionedStore>) =>
  Effect.flatMap(
    Plan.make(
      Step.make("read", { target: echo, task: Reference.fromAgent("writer") }),
      Step.make("ask", { target: "writer", task: "do" }),
      Step.make("give", { target: echo, task: Reference.fromStep("read") })
    ),
    (plan) => Plan.bind(plan, { agents: { writer }, memories: { writer: memory } })
  )

const problems = <A, E extends { readonly _tag: string }>(plan: Effect.Effect<A, E | PlanInvalid.PlanInvalid>) =>
  Effect.map(Effect.flip(plan), (error) => {
    assert.instanceOf(error, PlanInvalid.PlanInvalid)
    return error.problems
  })

export const rows: Rows = {
  P27: {
    expected: "images of the input reach the first step and steps that read fromStart, and no step that reads fromPrev",
    test: Effect.gen(function* () {
      const seen: Array<readonly [string, number]> = []
      const look = ({ content, step, task }: Step.Input) =>
        Effect.sync(() => {
          seen.push([step, content.length])
          return task
        })
      const plan = yield* bind(
        Plan.make(
          Step.make("first", { target: look }),
          Step.make("second", { target: look }),
          Step.make("third", { target: look, task: Reference.fromStart }),
          Step.make("agent", { target: writer, task: Reference.fromStart }),
          Step.make("last", { target: writer })
        )
      )
      yield* Plan.run(plan, { task: "look", content: [image] })
      assert.deepStrictEqual(seen, [
        ["first", 1],
        ["second", 0],
        ["third", 1]
      ])
      const files = (yield* ScriptedModel.requests).map(({ prompt }) =>
        prompt.content.flatMap((message) =>
          message.role === "user" ? message.content.flatMap((part) => (part.type === "file" ? [part.mediaType] : [])) : []
        )
      )
      assert.deepStrictEqual(files, [["image/png"], []])
    }).pipe(Effect.provide(ScriptedModel.layer([{ text: "a picture" }, { text: "done" }])))
  },
  P31: {
    expected: "an object of 500 fields comes before a function, which gets text, and before an agent, which gets the object",
    instead: "a function gets both, whole; an agent talks in messages and gets the one canonical text, whole (S2.1, S5.6)",
    test: Effect.gen(function* () {
      const big = Object.fromEntries(Array.from({ length: 500 }, (_, i) => [`field ${i}`, i]))
      const text = yield* Effect.fromResult(Digest.canonicalize(big))
      const plan = yield* bind(
        Plan.make(
          Step.make("load", { target: () => Effect.succeed(big) }),
          Step.make("untyped", { target: ({ payload, task }) => Effect.succeed([payload, task]) }),
          Step.make("typed", {
            task: Reference.fromStep("load"),
            input: Schema.Record(Schema.String, Schema.Finite),
            target: ({ payload }) => Effect.succeed(Object.values(payload).reduce((sum, n) => sum + n, 0))
          }),
          Step.make("agent", { target: writer, task: Reference.fromStep("load") }),
          Step.make("all", {
            target: ({ payload, task }) => Effect.succeed([payload, task]),
            task: Reference.fromStep("untyped"),
            context: Reference.fromStep("typed")
          })
        )
      )
      const result = completed(yield* Plan.run(plan, "go"))
      assert.deepStrictEqual(result.output, [[big, text], yield* Effect.fromResult(Digest.canonicalize([big, text]))])
      const [request] = yield* ScriptedModel.requests
      assert.strictEqual(request?.messages.findLast(({ role }) => role === "user")?.text, text)
    }).pipe(Effect.provide(ScriptedModel.layer([{ text: "read" }])))
  },
  P33: {
    expected: "fromAgent: empty before the agent has run, then its answer, and still that one after it failed",
    test: Effect.gen(function* () {
      const plan = yield* readThenAsk(Plan.memoryInStore("answers/writer"))
      assert.strictEqual(completed(yield* Plan.run(plan, "go")).output, "")
      const failed = yield* Effect.flip(Plan.run(plan, "go"))
      assert.strictEqual(failed.reason._tag, "StepFailed")
      assert.strictEqual(completed(yield* Plan.run(plan, "go")).output, "one")
      assert.strictEqual(completed(yield* Plan.run(plan, "go")).output, "three")
    }).pipe(
      Effect.provide([
        VersionedStore.layerMemory,
        ScriptedModel.layer([{ text: "one" }, { fail: { reason: "ContentPolicyError" } }, { text: "three" }, { text: "four" }])
      ])
    )
  },
  P34: {
    expected: "an agent under another name than its own: fromAgent reads what was kept under that name",
    test: Effect.gen(function* () {
      const plan = yield* Plan.make(
        Step.make("ask", { target: "research", task: "do" }),
        Step.make("read", { target: echo, task: Reference.fromAgent("research"), context: Reference.fromStep("ask") })
      )
      const bound = yield* Plan.bind(plan, {
        agents: { research: writer },
        memories: { research: Plan.memoryInStore("by alias"), writer: Plan.memoryInStore("by name") }
      })
      assert.strictEqual(completed(yield* Plan.run(bound, "go")).output, "found")
      const store = yield* VersionedStore.VersionedStore
      assert.deepStrictEqual((yield* store.list()).keys, ["by alias"])
    }).pipe(Effect.provide([VersionedStore.layerMemory, ScriptedModel.layer([{ text: "found" }])]))
  },
  P40: {
    expected: "an unknown, a later, and a mid-band reference are refused in a list of contexts as they are alone",
    test: Effect.gen(function* () {
      const target = () => answers("")
      const refused = Effect.fnUntraced(function* (reference: Reference.Reference | string) {
        const plan = (context: Reference.Reference | string | ReadonlyArray<Reference.Reference | string>) =>
          Plan.make(
            Step.make("p", { target, parallel: true }),
            Step.make("q", { target, parallel: true }),
            Step.make("between", { target }),
            Step.make("here", { target, context }),
            Step.make("later", { target })
          )
        const alone = yield* problems(plan(reference))
        const listed = yield* problems(plan(["before", reference]))
        assert.deepStrictEqual(pluck(listed, "code"), alone.map(({ code }) => code))
        assert.deepStrictEqual([alone[0]?.slot, listed[0]?.slot], ["context[0]", "context[1]"])
        return listed.map(({ code, reason }) => [code, ["nowhere", "later", "q"].find((name) => reason.includes(`"${name}"`))])
      })
      assert.deepStrictEqual(yield* refused(Reference.fromStep("nowhere")), [["UnknownStep", "nowhere"]])
      assert.deepStrictEqual(yield* refused(Reference.fromStep("later")), [["NotEarlier", "later"]])
      assert.deepStrictEqual(yield* refused(Reference.fromParallelAll("q")), [["NotFirstOfBand", "q"]])
    })
  }
}
