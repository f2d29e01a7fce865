/** Plans of steps that do nothing: a line of 1,000, and bands of members that may run at once. */
import { Annotation, END, START, StateGraph } from "@langchain/langgraph"
import { Effect } from "effect"
import { Plan, Step } from "effect-emissary/plan"

export interface Shape {
  readonly kind: "line" | "band"
  readonly steps: number
}

const target = ({ task }: { readonly task: string }) => Effect.succeed(task)

export const makeLine = (steps: number, options: (index: number) => { readonly writes?: string } = () => ({})) =>
  Plan.make(
    "line",
    Array.from({ length: steps }, (_, index) => Step.make(`s${index}`, { target, ...options(index) })),
    { maxIterations: steps + 10 }
  ).pipe(Effect.flatMap((plan) => Plan.bind(plan)))

const makeBand = (steps: number) =>
  Plan.make(
    "band",
    [
      Step.make("start", { target }),
      ...Array.from({ length: steps }, (_, index) => Step.make(`s${index}`, { target, parallel: true })),
      Step.make("end", { target })
    ],
    { maxIterations: steps + 10 }
  ).pipe(Effect.flatMap((plan) => Plan.bind(plan)))

/** The same functions in a generator, or in `Effect.forEach`. */
export const bare = async ({ kind, steps }: Shape): Promise<() => unknown> => {
  const line = Effect.gen(function* () {
    let task = "go"
    for (let index = 0; index < steps; index++) task = yield* target({ task })
    return task
  })
  const band = Effect.forEach(Array.from({ length: steps }), () => target({ task: "go" }), {
    concurrency: "unbounded"
  })
  return () => Effect.runPromise<unknown, never>(kind === "line" ? line : band)
}

export const langgraph = async ({ kind, steps }: Shape): Promise<() => unknown> => {
  const State = Annotation.Root({ task: Annotation<string>({ reducer: (_, task) => task, default: () => "" }) })
  // each name is new to the type of the graph, which is not what is measured
  const graph = new StateGraph(State) as unknown as {
    addNode(name: string, run: (state: { task: string }) => { task: string }): void
    addEdge(from: string, to: string): void
    compile: () => { invoke(input: { task: string }, options: { recursionLimit: number }): Promise<{ task: string }> }
  }
  const names = Array.from({ length: steps }, (_, index) => `s${index}`)
  for (const name of kind === "line" ? names : ["first", ...names, "last"])
    graph.addNode(name, ({ task }) => ({ task }))
  if (kind === "line") {
    for (const [index, name] of names.entries()) graph.addEdge(index === 0 ? START : `s${index - 1}`, name)
    graph.addEdge(`s${steps - 1}`, END)
  } else {
    graph.addEdge(START, "first")
    for (const name of names) {
      graph.addEdge("first", name)
      graph.addEdge(name, "last")
    }
    graph.addEdge("last", END)
  }
  const compiled = graph.compile()
  return async () => {
    const { task } = await compiled.invoke({ task: "go" }, { recursionLimit: steps + 10 })
    if (task !== "go") throw new Error(`wrong output ${task}`)
  }
}

export const emissary = async ({ kind, steps }: Shape): Promise<() => unknown> => {
  const bound = await Effect.runPromise(kind === "line" ? makeLine(steps) : makeBand(steps))
  return async () => {
    const result = await Effect.runPromise(Plan.run(bound, "go"))
    if (result.outcome !== "Completed") throw new Error(`the plan is ${result.outcome}`)
  }
}
