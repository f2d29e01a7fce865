/** The workloads, their rows, and the ratios that this library aims at. */
import { makeTask } from "./agents/task.ts"

export type Metric = "wall" | "cpu" | "memory"

export interface Case {
  readonly name: string
  /** Passed to the module of a row. */
  readonly options: unknown
  /** Runs that are started at once. */
  readonly together?: number
  /** Divides what one run costs, for example by its steps. */
  readonly per?: number
  /** Runs before the first block: at least `runs` and `milliseconds`, and never longer than `harness.ts` allows. */
  readonly warmUp: { readonly runs: number; readonly milliseconds: number }
  readonly block: { readonly runs: number; readonly milliseconds: number }
}

/** `metric` of ours, of the first case unless one is named, is at most `atMost` times the metric of another row or case, or a constant. */
export interface Target {
  readonly metric: Metric
  readonly case?: string
  readonly row?: string
  readonly to: { readonly row: string } | { readonly case: string } | { readonly constant: number }
  readonly atMost: number
}

export interface Workload {
  readonly id: string
  readonly title: string
  /** Times are milliseconds unless `microseconds` is set. Memory is MB of the process, or allocated KB. */
  readonly unit: { readonly time: string; readonly memory?: string; readonly microseconds?: boolean }
  /**
   * `allocation` measures what a run allocates, `held` what its result keeps, `commits` the commits to the file of its module,
   * all instead of times. `calls` counts the functions of this library and of Effect that a run calls (`against.ts`). `program`
   * bundles and starts programs (`programs.ts`).
   */
  readonly measure: "time" | "allocation" | "held" | "commits" | "calls" | "program"
  /** A module, whose function `make`, or the one after `#`, gets the options of a case and returns one run. */
  readonly rows: Readonly<Record<string, string>>
  /** The row that is this library. */
  readonly ours: string
  readonly cases: ReadonlyArray<Case>
  readonly targets: ReadonlyArray<Target>
}

export const agents: Readonly<Record<string, string>> = {
  bare: "./agents/bare.ts",
  hybrid: "./agents/hybrid.ts",
  guide: "./agents/guide.ts",
  "ai-sdk": "./agents/aiSdk.ts",
  "openai-agents": "./agents/openaiAgents.ts",
  langgraph: "./agents/langgraph.ts",
  mastra: "./agents/mastra.ts",
  emissary: "./agents/emissary.ts"
}

const agentWorkload = (
  workload: Omit<Workload, "rows" | "ours" | "measure"> & { readonly measure?: Workload["measure"] }
): Workload => ({ measure: "time", rows: agents, ours: "emissary", ...workload })

const hybrid = { row: "hybrid" }
const aiSdk = { row: "ai-sdk" }
/** The nearest to the ideal that the timers of the machine allow. */
const bare = { row: "bare" }
const zod = { row: "zod" }
const [again, fresh] = ["the same document again", "a new document each time"]
const decoding = { warmUp: { runs: 300, milliseconds: 1500 }, block: { runs: 5, milliseconds: 100 } }
const short = { warmUp: { runs: 20, milliseconds: 1500 }, block: { runs: 1, milliseconds: 100 } }
const once = { warmUp: { runs: 0, milliseconds: 0 }, block: { runs: 1, milliseconds: 0 } }
const perStep = { time: "µs per step", microseconds: true }

const storeCase = (store: string): Case => ({
  name: store,
  options: { store, count: 100 },
  per: 100,
  ...short
})

const turnRows = {
  emissary: "./growth/turns.ts#emissary",
  "emissary, in memory": "./growth/turns.ts#memory",
  "emissary, reopened": "./growth/turns.ts#reopened",
  "emissary, cluster": "./growth/turns.ts#cluster",
  "a row by hand": "./growth/turns.ts#byHand",
  langgraph: "./growth/turns.ts#langgraph",
  mastra: "./growth/turns.ts#mastra"
}
const [textOnly, withTool] = ["text only", "one tool call"]
const langgraph = { row: "langgraph" }
const ours = { row: "emissary" }

const turnCases = (turns: number, warmUp: Case["warmUp"], block: Case["block"]): ReadonlyArray<Case> => [
  { name: textOnly, options: { turns, tool: false }, per: turns, warmUp, block },
  { name: withTool, options: { turns, tool: true }, per: turns, warmUp, block }
]

export const workloads: ReadonlyArray<Workload> = [
  agentWorkload({
    id: "W1",
    title: "ten steps, one tool call each",
    unit: perStep,
    cases: [
      {
        name: "10 steps",
        options: makeTask({}),
        per: 10,
        warmUp: { runs: 2500, milliseconds: 2000 },
        block: { runs: 3, milliseconds: 120 }
      }
    ],
    targets: [
      { metric: "cpu", to: aiSdk, atMost: 0.45 },
      { metric: "cpu", to: hybrid, atMost: 1.5 }
    ]
  }),
  agentWorkload({
    id: "W1a",
    title: "memory that the ten steps of W1 allocate",
    unit: { time: "", memory: "KB per run" },
    measure: "allocation",
    cases: [
      {
        name: "10 steps",
        options: makeTask({}),
        warmUp: { runs: 500, milliseconds: 1000 },
        block: { runs: 40, milliseconds: 0 }
      }
    ],
    targets: [{ metric: "memory", to: aiSdk, atMost: 0.35 }]
  }),
  agentWorkload({
    id: "W1t",
    title: "ten steps, the model is offered 30 tools",
    unit: { time: "ms per run" },
    cases: [
      {
        name: "30 tools",
        options: makeTask({ tools: 30 }),
        warmUp: { runs: 1200, milliseconds: 2000 },
        block: { runs: 3, milliseconds: 120 }
      }
    ],
    targets: [{ metric: "cpu", to: aiSdk, atMost: 0.04 }]
  }),
  agentWorkload({
    id: "W2",
    title: "100 calls of 5 ms in one answer, all at once",
    unit: { time: "ms per run" },
    cases: [
      {
        name: "unbounded",
        options: makeTask({ steps: 1, calls: 100, toolMilliseconds: 5 }),
        warmUp: { runs: 250, milliseconds: 1500 },
        block: { runs: 8, milliseconds: 100 }
      }
    ],
    targets: [
      { metric: "cpu", to: aiSdk, atMost: 0.6 },
      { metric: "wall", to: bare, atMost: 1.3 }
    ]
  }),
  agentWorkload({
    id: "W2b",
    title: "100 calls of 5 ms in one answer, five at once",
    unit: { time: "ms per run" },
    cases: [
      {
        name: "five at once",
        options: makeTask({ steps: 1, calls: 100, toolMilliseconds: 5, concurrency: 5 }),
        warmUp: { runs: 30, milliseconds: 1500 },
        block: { runs: 2, milliseconds: 100 }
      }
    ],
    targets: [
      { metric: "cpu", to: aiSdk, atMost: 0.8 },
      { metric: "wall", to: bare, atMost: 1.05 }
    ]
  }),
  agentWorkload({
    id: "W3",
    title: "long runs, one tool call in each step",
    unit: perStep,
    cases: [
      {
        name: "400 steps",
        options: makeTask({ steps: 400 }),
        per: 400,
        warmUp: { runs: 60, milliseconds: 2000 },
        block: { runs: 1, milliseconds: 120 }
      },
      {
        name: "50 steps",
        options: makeTask({ steps: 50 }),
        per: 50,
        warmUp: { runs: 400, milliseconds: 2000 },
        block: { runs: 2, milliseconds: 120 }
      }
    ],
    targets: [
      { metric: "cpu", to: aiSdk, atMost: 0.35 },
      { metric: "cpu", to: { case: "50 steps" }, atMost: 1.2 }
    ]
  }),
  agentWorkload({
    id: "W5",
    title: "1,000 runs at once, three steps of 20 ms each",
    unit: { time: "ms for all", memory: "MB of the process at its peak" },
    cases: [
      {
        name: "1,000 runs",
        options: makeTask({ steps: 3, modelMilliseconds: 20 }),
        together: 1000,
        warmUp: { runs: 3, milliseconds: 0 },
        block: { runs: 1, milliseconds: 0 }
      }
    ],
    targets: [
      { metric: "wall", to: aiSdk, atMost: 0.4 },
      { metric: "memory", to: aiSdk, atMost: 0.8 }
    ]
  }),
  {
    id: "W4",
    title: "decode the definition of an agent with 30 tools, 40 KB of JSON",
    unit: { time: "µs", microseconds: true },
    measure: "time",
    rows: {
      "JSON.parse": "./decode/parse.ts",
      ajv: "./decode/ajv.ts",
      zod: "./decode/zod.ts",
      emissary: "./decode/emissary.ts",
      "emissary, bound to stubs": "./decode/emissaryBound.ts"
    },
    ours: "emissary",
    cases: [
      { name: again, options: { fresh: false }, ...decoding },
      { name: fresh, options: { fresh: true }, ...decoding }
    ],
    targets: [
      { metric: "cpu", to: zod, atMost: 1 },
      { metric: "cpu", case: fresh, to: zod, atMost: 1 },
      { metric: "cpu", case: fresh, row: "emissary, bound to stubs", to: zod, atMost: 3 },
      { metric: "cpu", row: "emissary, bound to stubs", to: zod, atMost: 1 }
    ]
  },
  {
    id: "W6",
    title: "a small agent: its bundle, and its import and first run in a new process",
    unit: { time: "ms", memory: "KB" },
    measure: "program",
    rows: {
      hybrid: "./programs/hybrid.ts",
      guide: "./programs/guide.ts",
      "ai-sdk": "./programs/aiSdk.ts",
      "openai-agents": "./programs/openaiAgents.ts",
      langgraph: "./programs/langgraph.ts",
      mastra: "./programs/mastra.ts",
      emissary: "./programs/emissary.ts",
      "emissary/agent": "./programs/emissaryAgent.ts"
    },
    ours: "emissary",
    cases: [
      { name: "minified", options: {}, ...once },
      { name: "gzipped", options: {}, ...once },
      { name: "import and first run", options: {}, ...once }
    ],
    targets: [
      { metric: "memory", to: { constant: 260 }, atMost: 1 },
      { metric: "memory", case: "gzipped", to: { constant: 85 }, atMost: 1 },
      { metric: "cpu", case: "import and first run", to: hybrid, atMost: 1.45 },
      { metric: "cpu", case: "import and first run", row: "emissary/agent", to: hybrid, atMost: 1.45 },
      { metric: "cpu", case: "import and first run", row: "emissary/agent", to: aiSdk, atMost: 1.85 }
    ]
  },
  {
    id: "import",
    title: "an entry of this library, the model of Effect and the AI SDK, imported in a new process",
    unit: { time: "ms" },
    measure: "program",
    rows: {
      LanguageModel: "effect/ai/LanguageModel",
      "ai-sdk": "ai",
      agent: "effect-emissary/agent",
      session: "effect-emissary/session",
      plan: "effect-emissary/plan",
      root: "effect-emissary",
      payload: "effect-emissary/payload"
    },
    ours: "agent",
    cases: [{ name: "import", options: {}, ...once }],
    targets: [{ metric: "cpu", to: { row: "LanguageModel" }, atMost: 1.3 }]
  },
  {
    id: "conversation",
    title: "a conversation of 10,000 messages",
    unit: { time: "µs per message", microseconds: true },
    measure: "time",
    rows: { bare: "./growth/conversation.ts#bare", emissary: "./growth/conversation.ts#emissary" },
    ours: "emissary",
    cases: ["append", "encode", "decode", "fit"].map((name) => ({ name, options: name, per: 10_000, ...short })),
    targets: []
  },
  {
    id: "events",
    title: "the events of a run of 100 steps",
    unit: { time: "µs per event", microseconds: true },
    measure: "time",
    rows: { bare: "./growth/events.ts#bare", emissary: "./growth/events.ts#emissary" },
    ours: "emissary",
    cases: ["encode", "decode", "fold"].map((name) => ({ name, options: name, per: 400, ...short })),
    targets: []
  },
  {
    id: "plan",
    title: "plans of steps that do nothing",
    unit: { time: "µs per step", microseconds: true },
    measure: "time",
    rows: {
      bare: "./growth/plan.ts#bare",
      langgraph: "./growth/plan.ts#langgraph",
      emissary: "./growth/plan.ts#emissary"
    },
    ours: "emissary",
    cases: [
      { name: "a line of 1,000", options: { kind: "line", steps: 1000 }, per: 1000, ...short },
      { name: "a band of 100", options: { kind: "band", steps: 100 }, per: 100, ...short },
      { name: "a band of 2,000", options: { kind: "band", steps: 2000 }, per: 2000, ...short }
    ],
    targets: [
      { metric: "cpu", to: { row: "langgraph" }, atMost: 1 },
      { metric: "cpu", case: "a band of 100", to: { row: "langgraph" }, atMost: 1 },
      { metric: "cpu", case: "a band of 2,000", to: { case: "a band of 100" }, atMost: 1.2 }
    ]
  },
  {
    id: "stores",
    title: "a checkpoint after each step of a plan",
    unit: { time: "µs per step", microseconds: true },
    measure: "time",
    rows: { bare: "./growth/stores.ts#bare", emissary: "./growth/stores.ts#emissary" },
    ours: "emissary",
    cases: [
      storeCase("memory"),
      storeCase("SQLite"),
      ...(process.env["EMISSARY_TEST_POSTGRES"] === undefined ? [] : [storeCase("PostgreSQL")])
    ],
    targets: []
  },
  {
    id: "turns",
    title: "durable turns, 20 in a session",
    unit: { time: "ms per turn" },
    measure: "time",
    rows: turnRows,
    ours: "emissary",
    cases: turnCases(20, { runs: 5, milliseconds: 0 }, { runs: 1, milliseconds: 0 }),
    targets: [
      { metric: "cpu", to: langgraph, atMost: 0.7 },
      { metric: "cpu", case: withTool, to: langgraph, atMost: 0.42 },
      { metric: "cpu", row: "emissary, cluster", to: ours, atMost: 2 },
      { metric: "cpu", case: withTool, row: "emissary, cluster", to: ours, atMost: 2 }
    ]
  },
  {
    id: "turns-postgres",
    title: "durable turns on PostgreSQL, 20 in a session",
    unit: { time: "ms per turn" },
    measure: "time",
    rows:
      process.env["EMISSARY_TEST_POSTGRES"] === undefined
        ? {}
        : { emissary: "./growth/turns.ts#postgres", "emissary, cluster": "./growth/turns.ts#clusterOnPostgres" },
    ours: "emissary",
    cases: turnCases(20, { runs: 5, milliseconds: 0 }, { runs: 1, milliseconds: 0 }),
    targets: [
      { metric: "cpu", row: "emissary, cluster", to: ours, atMost: 2 },
      { metric: "cpu", case: withTool, row: "emissary, cluster", to: ours, atMost: 2 }
    ]
  },
  {
    id: "commits",
    title: "commits of durable turns",
    unit: { time: "", memory: "commits per turn" },
    measure: "commits",
    rows: Object.fromEntries(Object.entries(turnRows).filter(([row]) => row !== "emissary, in memory")),
    ours: "emissary",
    cases: turnCases(5, { runs: 1, milliseconds: 0 }, { runs: 1, milliseconds: 0 }),
    targets: [
      { metric: "memory", to: { constant: 2 }, atMost: 1 },
      { metric: "memory", case: withTool, to: { constant: 4 }, atMost: 1 }
    ]
  },
  {
    id: "open",
    title: "open a session of 10,036 events",
    unit: { time: "ms" },
    measure: "time",
    rows: { emissary: "./growth/turns.ts#open" },
    ours: "emissary",
    cases: [
      {
        name: "from its snapshot",
        options: {},
        warmUp: { runs: 10, milliseconds: 0 },
        block: { runs: 1, milliseconds: 100 }
      }
    ],
    targets: [{ metric: "cpu", to: { constant: 50 }, atMost: 1 }]
  },
  {
    id: "remote",
    title: "a call of a tool over HTTP on the loopback, client and server together",
    unit: { time: "µs per call", microseconds: true },
    measure: "time",
    rows: { HttpApi: "./growth/remote.ts#httpApi", emissary: "./growth/remote.ts#emissary" },
    ours: "emissary",
    cases: [
      {
        name: "one at a time",
        options: {},
        warmUp: { runs: 1000, milliseconds: 1500 },
        block: { runs: 50, milliseconds: 100 }
      }
    ],
    targets: [{ metric: "cpu", to: { row: "HttpApi" }, atMost: 2 }]
  },
  {
    id: "suspended",
    title: "10,000 runs that wait for an approval",
    unit: { time: "", memory: "KB per run" },
    measure: "held",
    rows: {
      bare: "./growth/suspended.ts#bare",
      "emissary, as JSON": "./growth/suspended.ts#json",
      emissary: "./growth/suspended.ts#emissary"
    },
    ours: "emissary",
    cases: [
      {
        name: "two answered steps",
        options: {},
        warmUp: { runs: 500, milliseconds: 0 },
        block: { runs: 10_000, milliseconds: 0 }
      }
    ],
    targets: []
  }
]
