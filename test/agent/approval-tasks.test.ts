/** PEOPLE-2: how often a person is asked in 25 tasks with 106 calls that need an approval. */
import { assert, describe } from "@effect/vitest"
import { Effect, Layer, Schema } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { Agent, Run } from "effect-emissary"
import { Plan, Reference, Step } from "effect-emissary/plan"
import { ScriptedModel } from "effect-emissary/testing"
import { test } from "../test.ts"
import { tasks, tools, type Task } from "./approval-tasks.ts"

const change = (name: Task["waves"][number][number]["tool"]) =>
  Tool.make(name, { parameters: Schema.Struct({ about: Schema.String }), success: Schema.String, needsApproval: true })

const Look = Tool.make("look", { parameters: Schema.Struct({ at: Schema.Finite }), success: Schema.String })

const [refund, exchange, cancel, address, mail, ticket, book, move, post, sell] = tools

const toolkit = Toolkit.make(
  Look,
  change(refund),
  change(exchange),
  change(cancel),
  change(address),
  change(mail),
  change(ticket),
  change(book),
  change(move),
  change(post),
  change(sell)
)

const changesOf = ({ waves }: Task) => waves.flat().map(({ about, tool }) => `${tool} ${about}`)

/** The model reads, one by one, then makes the calls of a wave in one answer each. */
const scriptOf = ({ reads, waves }: Task): ScriptedModel.Script => [
  ...Array.from({ length: reads }, (_, at) => ({ toolCalls: [{ name: "look", params: { at } }] })),
  ...waves.map((wave) => ({ toolCalls: wave.map(({ about, tool }) => ({ name: tool, params: { about } })) })),
  { text: "Done." }
]

/** Each wave is a parallel group, whose steps have their arguments from the text of the task. */
const planOf = ({ waves }: Task) =>
  Plan.make(
    "task",
    waves.flatMap((wave, index) => [
      ...wave.map(({ about, tool }) =>
        Step.make(`${tool}_${about.replaceAll(" ", "_")}`, {
          target: tool,
          task: Reference.literal(about),
          parallel: true
        })
      ),
      Step.make(`after_${index}`, { target: () => Effect.succeed("Done.") })
    ])
  )

interface Waiting {
  readonly requests: ReadonlyArray<Run.Request>
}

/** Runs a task to its end. `decide` is asked each time that it waits. */
const perform = Effect.fnUntraced(function* (task: Task, decide: (waiting: Waiting) => ReadonlyArray<Run.Decision>) {
  const done: Array<string> = []
  const noted = (tool: string) => (args: { readonly about: string }) =>
    Effect.sync(() => (done.push(`${tool} ${args.about}`), "done"))
  const handlers = toolkit.toLayer({
    look: () => Effect.succeed("seen"),
    refund: noted(refund),
    exchange: noted(exchange),
    cancel: noted(cancel),
    address: noted(address),
    mail: noted(mail),
    ticket: noted(ticket),
    book: noted(book),
    move: noted(move),
    post: noted(post),
    sell: noted(sell)
  })
  const run = Effect.gen(function* () {
    if (task.by === "plan") {
      const bound = yield* Plan.bind(yield* planOf(task), { toolkit })
      let result = yield* Plan.run(bound, "go")
      while (result.outcome === "Paused")
        result = yield* Plan.resume(bound, result.state, { decisions: decide(result) })
      return result.outcome
    }
    const agent = Agent.make("assistant", { toolkit })
    let result = yield* agent.run(task.name)
    while (result.outcome === "AwaitingApproval") {
      result = yield* agent.resume(result.state, { decisions: decide(result) })
    }
    return result.outcome
  })
  const outcome = yield* Effect.provide(run, Layer.merge(handlers, ScriptedModel.layer(scriptOf(task))))
  assert.strictEqual(outcome, "Completed", task.name)
  assert.deepStrictEqual(done.toSorted(), changesOf(task).toSorted(), task.name)
})

describe("PEOPLE-2 tasks", () => {
  test("PEOPLE-2 106 calls that need an approval are 106 requests, and at most 40 questions", function* () {
    assert.isAtLeast(tasks.length, 25)
    let questions = 0
    const digests: Array<string> = []
    for (const task of tasks) {
      yield* perform(task, ({ requests }) => {
        questions += 1
        digests.push(...requests.map(({ digest }) => digest))
        const batch = Run.batch(requests)
        // Whatever waits is in the one question
        assert.strictEqual(batch?.requests.length ?? 1, requests.length, task.name)
        return Run.approveAll(requests)
      })
    }
    const requests = new Set(digests).size
    console.log(`${tasks.length} tasks: ${requests} requests, ${questions} questions`)
    assert.strictEqual(requests, 106)
    assert.isAtMost(questions, 40)
  })

  test("PEOPLE-2 a person who decides one by one ends with the same changes", function* () {
    let questions = 0
    for (const task of tasks) {
      yield* perform(task, ({ requests }) => {
        questions += 1
        return requests.filter(Run.isApprovable).slice(0, 1).map(Run.approve)
      })
    }
    assert.strictEqual(questions, 106)
  })
})
