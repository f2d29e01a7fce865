/** P27, P31, P33, P34, Q02: the inputs of steps, and their outputs. */
import { assert } from "@effect/vitest"
import { Effect, Schema } from "effect"
import { Agent, ToolResult, VersionedStore } from "effect-emissary"
import { Digest } from "effect-emissary/payload"
import { Plan, type PlanError, Reference, Step } from "effect-emissary/plan"
import { ScriptedModel } from "effect-emissary/testing"
import { bind, completed, log } from "../../plan/support.ts"
import type { Rows } from "./row.ts"
import type * as livePlan from "#src/plan/internal/livePlan.ts"

const echo = ({ task }: Step.Input) => Effect.succeed(task)

const writer = Agent.make("writer", { instructions: "Write." })

const image = ToolResult.filePart({ mediaType: "image/png", data: "iVBORw0KGgo=" })

/** Reads what the agent answered last, and then asks it; the reading is the output. */
const readThenAsk = (memory: livePlan.AgentMemory<VersionedStore.VersionedStore>) =>
  Effect.flatMap(
    Plan.make("plan", [
      Step.make("read", { target: echo, task: Reference.fromAgent("writer") }),
      Step.make("ask", { target: "writer", task: "do" }),
      Step.make("give", { target: echo, task: Reference.fromStep("read") })
    ]),
    (plan) => Plan.bind(plan, { agents: { writer }, memories: { writer: memory } })
  )

const failureOf = (error: PlanError.PlanError) =>
  error.reason._tag === "StepFailed" ? error.reason.failure.type : error.reason._tag

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
        Plan.make("plan", [
          Step.make("first", { target: look }),
          Step.make("second", { target: look }),
          Step.make("third", { target: look, task: Reference.fromStart }),
          Step.make("agent", { target: writer, task: Reference.fromStart }),
          Step.make("last", { target: writer })
        ])
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
        Plan.make("plan", [
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
        ])
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
      const plan = yield* Plan.make("plan", [
        Step.make("ask", { target: "research", task: "do" }),
        Step.make("read", { target: echo, task: Reference.fromAgent("research"), context: Reference.fromStep("ask") })
      ])
      const bound = yield* Plan.bind(plan, {
        agents: { research: writer },
        memories: { research: Plan.memoryInStore("by alias"), writer: Plan.memoryInStore("by name") }
      })
      assert.strictEqual(completed(yield* Plan.run(bound, "go")).output, "found")
      const store = yield* VersionedStore.VersionedStore
      assert.deepStrictEqual((yield* store.list()).keys, ["by alias"])
    }).pipe(Effect.provide([VersionedStore.layerMemory, ScriptedModel.layer([{ text: "found" }])]))
  },
  Q02: {
    expected: "the answer of a plan does not fit, and there are two retries: the whole plan runs three times",
    instead: "so where a plan is a step with retries; a plan by itself runs once, and a resume repeats nothing (PLAN-5)",
    test: Effect.gen(function* () {
      const { fn, ran } = log()
      const two = [
        Step.make("a", { target: fn("a") }),
        Step.make("b", { target: fn("b", () => "no number") })
      ] as const
      const inner = yield* bind(Plan.make("inner", two))
      const outer = yield* bind(
        Plan.make("plan", [Step.make("sub", { target: inner, output: Schema.Finite, retry: { times: 2 } })])
      )
      assert.strictEqual(failureOf(yield* Effect.flip(Plan.run(outer, "go"))), "OutputInvalid")
      assert.deepStrictEqual(ran, ["a", "b", "a", "b", "a", "b"])

      ran.length = 0
      const alone = yield* bind(Plan.make("plan", two, { output: Schema.Finite }))
      const error = yield* Effect.flip(Plan.run(alone, "go"))
      assert.strictEqual(error.reason._tag, "OutputInvalid")
      assert(error.state !== undefined)
      assert.strictEqual((yield* Effect.flip(Plan.resume(alone, error.state))).reason._tag, "OutputInvalid")
      assert.deepStrictEqual(ran, ["a", "b"])
      yield* Effect.flip(Effect.retry(Plan.run(alone, "go"), { times: 2 }))
      assert.lengthOf(ran, 8)
    })
  }
}
