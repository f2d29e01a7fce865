/**
 * Jobs in the worlds: a plan with a step that fails at first, a loop, and a parallel group with an agent whose calls wait for a person. No model
 * of plans judges them, but laws: a job comes to its end, its result and the values that its steps write are as after a run without trouble, each
 * step has run to its end, and its log can be read by each reader.
 */
import { Effect, Fiber, Option, Random, Result, Schema } from "effect"
import { Plan, Step, When } from "effect-emissary/plan"
import { Session } from "effect-emissary/session"
import { Ledger, staff } from "./agents.ts"
import { call, decide, type Diary, perform, type World } from "./clients.ts"

/** The session of the job. */
export const session = "job"

const Draft = Schema.Struct({ text: Schema.String, round: Schema.Finite })

const steps = ["collect", "draft1", "draft2", "draft3", "left", "right", "end"] as const

/** The plan, whose steps are in the ledger as calls that may run again. */
export const plan = Effect.gen(function* () {
  const ledger = yield* Ledger
  const work = (name: string) =>
    Effect.gen(function* () {
      ledger.started.push(`again ${name}`)
      yield* Effect.flatMap(Random.nextIntBetween(0, 120), Effect.sleep)
      ledger.ended.push(`again ${name}`)
    })
  const step = (name: string) => Step.target(name, ({ task }) => Effect.as(work(name), `${name} of ${task}`))
  const collect = Step.target("collect", ({ task }) =>
    Effect.suspend(() => {
      if (ledger.started.includes("again try")) return Effect.as(work("collect"), `collect of ${task}`)
      ledger.started.push("again try")
      return Effect.fail({ _tag: "NoLine" })
    })
  )
  const draft = Step.target("draft", { output: Draft }, ({ payload, task }) => {
    const before = Schema.decodeUnknownOption(Draft)(payload)
    const { round, text } = Option.getOrElse(before, () => ({ text: task, round: 0 }))
    return Effect.as(work(`draft${round + 1}`), { text: `${text}.`, round: round + 1 })
  })
  const made = yield* Plan.make("build", [
    Step.make("collect", { target: collect, writes: "collect" }),
    Step.make("draft", { target: draft, writes: "draft", routes: [["draft", When.field("round").lessThan(3)]] }),
    Step.make("left", { target: step("left"), parallel: true, writes: "left" }),
    Step.make("desk", { target: staff, task: "job/desk|boss|pay", parallel: true, writes: "desk" }),
    Step.make("right", { target: step("right"), parallel: true, writes: "right" }),
    Step.make("end", { target: step("end"), writes: "end" })
  ])
  return yield* Plan.bind(made)
}).pipe(Effect.orDie)

const written = ["collect", "draft", "left", "desk", "right", "end"] as const

const job = { id: session, input: "go", ifExists: "resume" } as const

/** Runs the job, and again where it failed, was stopped or removed, or waits, until it is completed or `times` are over. */
const runs = Effect.fnUntraced(function* (world: World, diary: Diary, bound: Session.Typed<unknown>, times: number) {
  for (let time = 1; time <= times; time++) {
    const result = yield* Effect.result(
      call(world, "run the job", (sessions) =>
        Effect.provideService(Session.run(bound, job), Session.Session, sessions)
      )
    )
    if (Result.isSuccess(result) && result.success.outcome === "Completed") return result.success
    const found = Result.isSuccess(result) ? result.success.outcome : result.failure.reason._tag
    if (!passing.has(found)) diary.problems.push(`the job ends with ${found}`)
    yield* Effect.flatMap(Random.nextIntBetween(50, 400), Effect.sleep)
  }
})

/** The ends of a job that is run again: it failed, waits for a person, or a user stopped or removed it. */
const passing = new Set(["AwaitingApproval", "TurnFailed", "Interrupted", "NotFound", "EventsUnknown"])

/** Two users of the job, one of whom stops it now and then, unless the world has no stops. */
export const use = Effect.fnUntraced(function* (world: World, diary: Diary) {
  const bound = yield* plan
  const nap = Effect.flatMap(Random.nextIntBetween(0, 900), Effect.sleep)
  const stop = Effect.gen(function* () {
    yield* nap
    yield* perform(world, diary, { kind: "interrupt", session }, (sessions) => sessions.interrupt(session))
    yield* nap
    if ((yield* Random.next) < 0.5)
      yield* perform(world, diary, { kind: "remove", session }, (sessions) => sessions.remove(session))
  })
  const starting = Effect.andThen(nap, runs(world, diary, bound, 4))
  yield* Effect.all([starting, starting, ...(diary.isCalm ? [] : [stop])], { concurrency: "unbounded" })
})

const drafted = { round: 3, text: "collect of go..." }

const [left, right] = ["left", "right"].map((name) => `${name} of ${JSON.stringify(drafted)}`)

/** The output, and the values that the steps have written. */
const expected = JSON.stringify([
  `end of ${right}`,
  "collect of go",
  { text: drafted.text, round: 3 },
  left,
  "re: job/desk|boss|pay",
  right,
  `end of ${right}`
])

/** Runs the job to its end, and compares what is left of it with a run without trouble. */
export const finish = Effect.fnUntraced(function* (world: World, diary: Diary) {
  const bound = yield* plan
  const deciding = yield* Effect.forkChild(
    Effect.forever(Effect.andThen(Effect.sleep(200), decide(world, diary, session)))
  )
  const result = yield* runs(world, diary, bound, 40)
  yield* Fiber.interrupt(deciding)
  const values: Array<unknown> = [result?.output]
  for (const name of written) {
    const found = yield* call(world, `read ${name}`, (sessions) => sessions.read(name))
    values.push(Option.getOrUndefined(found)?.value)
  }
  const found = JSON.stringify(values)
  if (found !== expected) diary.problems.push(`the job: expected ${expected}, got ${found}`)
  const { ended } = yield* Ledger
  for (const name of steps) {
    if (!ended.includes(`again ${name}`)) diary.problems.push(`the step ${name} never ran to its end`)
  }
})
