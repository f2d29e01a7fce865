import { Digest } from "effect-emissary/payload"
import { Result, type Schema } from "effect"
import type { Json } from "../family.ts"
import { type Case, isObject, stepsOf } from "./vocabulary.ts"

/** What the library does instead of the recording, and why: the spec's ADVICE. */
export interface Deviation {
  readonly reason: string
  readonly expect: Json
}

/** A difference that shows in many cases: how it changes what a case expects, if it does. */
export interface Rule {
  readonly reason: string
  readonly adjust: (golden: Case) => Json | undefined
}

const run = (trace: ReadonlyArray<ReadonlyArray<string | null>>, result: Json): Json => ({ trace, result })

const text = (task: string, payload: string, context: string | null = null): Json => ({
  task,
  context,
  payload,
  text: payload
})

const raised = (kind: string, message = ""): Json => ({ RAISED: kind, message })

const raisedRun = (kind: string): Json => ({ phases: [{ trace: [], result: raised(kind) }] })

const usedUp: Json = {
  ...text("a(go)", "b(a(go))"),
  error: { type: "MaxIterationsExceeded", message: "'c'", retryable: false }
}

const stopped: Json = { status: "failed", next_step: "c", completed_steps: ["a", "b"], kv: {} }

/**
 * Cases where the library differs on purpose from what was recorded, reviewed one by
 * one. `expect` takes the place of the case's own as a whole.
 */
export const deviations: { readonly [id: string]: Deviation } = {
  A15: { reason: "S18.4: a version that is not known is refused, not read as if it were", expect: { refused: "version" } },
  A18: { reason: "A18 RECOMMENDED: a literal that is no text is refused", expect: { refused: "value" } },
  A23: { reason: "S18.7 DEFECT: the name check ends at the end of the name", expect: { refused: "name" } },
  A26: {
    reason: "S18.5: a function without a name of its own is named after its step, so that no two share one",
    expect: {
      to_dict: {
        version: 2,
        max_iterations: 100,
        steps: [
          {
            name: "first",
            target: { kind: "callable", name: "first" },
            task: { kind: "from_prev" },
            parallel: false
          },
          { name: "p", target: { kind: "callable", name: "p" }, task: { kind: "from_prev" }, parallel: false }
        ]
      }
    }
  },
  D23: { reason: "S11.2.10 ADVICE: types are compared along the edges that data follows", expect: { OK: true } },
  D61: { reason: "S1.8 ADVICE: structural rules are checked when the plan is made", expect: {} },
  E03: {
    reason: "S4.1 ADVICE: an input without a payload has its task for one",
    expect: run(
      [
        ["a", "seed"],
        ["b", "seed"]
      ],
      text("seed", "b(seed)")
    )
  },
  E10: {
    reason: "S5.3 ADVICE: payloads that are no text count as context by their text",
    expect: run(
      [
        ["a", "seed"],
        ["cap", "do", '{"x":1}']
      ],
      text("do", "cap(do)", '{"x":1}')
    )
  },
  E11: {
    reason: "S5.3 ADVICE: payloads that are no text count as context by their text",
    expect: run(
      [
        ["a", "seed"],
        ["cap", "do", '{"items":["q"]}']
      ],
      text("do", "cap(do)", '{"items":["q"]}')
    )
  },
  E23: {
    reason: "S5.8 ADVICE: what a step gives is decoded with its output schema",
    expect: run([["a", "seed"]], {
      task: "seed",
      context: null,
      payload: null,
      text: "",
      error: { type: "OutputInvalid", message: "", retryable: false }
    })
  },
  F13: {
    reason: "S25.7: payloads are plain objects here, and routesBy reads their own properties",
    expect: run(
      [
        ["tri", "seed"],
        ["spam", '{"severity":"spam"}']
      ],
      text('{"severity":"spam"}', 'spam({"severity":"spam"})')
    )
  },
  F16: {
    reason: "S7.5 ADVICE: a branch ends at its rejoin, wherever it went on",
    expect: run(
      [
        ["c", "seed"],
        ["x", "c(seed)"],
        ["z", "x(c(seed))"],
        ["end", "z(x(c(seed)))"]
      ],
      text("z(x(c(seed)))", "end(z(x(c(seed))))")
    )
  },
  F18: {
    reason: "S7.5 ADVICE: rejoins of nested branches are a stack",
    expect: run(
      [
        ["c1", "seed"],
        ["c2", "c1(seed)"],
        ["b2", "c2(c1(seed))"],
        ["mid", "b2(c2(c1(seed)))"],
        ["end", "mid(b2(c2(c1(seed))))"]
      ],
      text("mid(b2(c2(c1(seed))))", "end(mid(b2(c2(c1(seed)))))")
    )
  },
  F28: {
    reason: "S4.3 ADVICE: a band that did not run is an error like a step that did not",
    expect: run([["r", "seed"]], raised("PlanRuntimeError"))
  },
  J16: {
    reason: "S13.5 ADVICE: a live run holds a lease and cannot be taken",
    expect: { resumer: true, original: "y", status: "done", w1: "1" }
  },
  J20: {
    reason: "S16.2 DEFECT: a pause inside pauses the outside, too",
    expect: {
      error: { type: "PlanPaused", message: "Plan paused at step 'a': wait", retryable: true },
      "outer checkpoint": { status: "paused", next_step: "sub" }
    }
  },
  K06: {
    reason: "S17.1: events hold the record of the step itself, so that nothing is cut off",
    expect: { "tool_result.result length": 1000, "agent_finish.payload length": 1000 }
  },
  K11: { reason: "S17.3 ADVICE: the final text is told once", expect: { chunks: ["s:0", "s:1", "FINAL"] } },
  L03: {
    reason: "S12.2 DEFECT: usage counts once",
    expect: { input_tokens: 10, output_tokens: 1, nested_input_tokens: 0, nested_output_tokens: 0 }
  },
  M01: {
    reason: "PLAN-3: a condition never fails; false is not 0 in JSON (S25.8)",
    expect: { "s.greater_than(1)": false, "b.equals(0)": false }
  },
  N05: {
    reason: "PLAN-9: a kind of node that is not known is refused, not taken for an agent (L4)",
    expect: { RAISED: "Invalid" }
  },
  O01: { reason: "S9.4 DEFECT: an empty store is a store", expect: { keys: ["w"] } },
  O05: { reason: "S9.7 ADVICE: a value that is no JSON fails its step", expect: { result: "RAISES OutputNotJson" } },
  O06: { reason: "S2.2 ADVICE: checked where the step ends", expect: { result: "RAISES OutputNotJson" } },
  O08: { reason: "S9.5: writes and checkpoints have keys of their own", expect: { result: "Completed" } },
  O11: {
    reason: "S5.3 DEFECT: a memory counts once",
    expect: { "cap received": [["do", "User: hi\nAssistant: there"]] }
  },
  O16: {
    reason: "S5.6 ADVICE: a target that cannot take its input is found when the plan is bound",
    expect: { error: { type: "PlanInvalid" } }
  },
  I05: {
    reason: "S6.1: a run that is done gives its recorded result again",
    expect: {
      phases: [
        { trace: [["a", "go"]], result: text("go", "a(go)") },
        { trace: [], result: text("go", "a(go)") },
        { trace: [["a", "other"]], result: text("other", "a(other)") }
      ]
    }
  },
  I08: {
    reason: "S13.6 ADVICE: a run that used up its iterations has failed, and its counter goes on",
    expect: {
      phases: [
        { trace: [["a", "go"], ["b", "a(go)"]], result: usedUp, checkpoint: stopped },
        { trace: [], result: raised("ConcurrentPlanRunError"), checkpoint: stopped },
        { trace: [], result: usedUp, checkpoint: stopped }
      ]
    }
  },
  I10: {
    reason: "S13.3: what is no checkpoint of ours is refused as unreadable and never overwritten",
    expect: {
      phases: [
        { trace: [], result: raised("Unreadable") },
        { trace: [], result: raised("Unreadable") }
      ]
    }
  },
  I11: { reason: "S13.3: refused for what it is, not as a lost race", expect: raisedRun("Unreadable") },
  I13: { reason: "S22.6: checkpoints of others are not trusted", expect: raisedRun("Unreadable") },
  I20: { reason: "S22.6: checkpoints of others are not trusted", expect: raisedRun("Unreadable") },
  I25: { reason: "S22.6: checkpoints of others are not trusted", expect: raisedRun("Unreadable") },
  I26: {
    reason: "S22.6: checkpoints of others are not trusted",
    expect: {
      phases: [
        { trace: [], result: raised("Unreadable") },
        { trace: [], result: raised("Unreadable") }
      ]
    }
  },
  I16: {
    reason: "PLAN-6: nothing that completed runs again; only the route is chosen anew",
    expect: {
      phases: [
        {
          trace: [
            ["a", "go"],
            ["b", "a(go)"]
          ],
          result: raised("PlanRuntimeError", "Step 'b'")
        },
        { trace: [["c", "b(a(go))"]], result: text("b(a(go))", "c(b(a(go)))") }
      ]
    }
  },
  I18: {
    reason: "S13.8 ADVICE: the loop state is kept, so that the step gets the value it failed with",
    expect: {
      phases: [
        {
          trace: [
            ["s", "go"],
            ["L", "S"],
            ["L", "S!"]
          ],
          result: {
            task: "S!",
            context: null,
            payload: null,
            text: "",
            error: { type: "RuntimeError", message: "x", retryable: false }
          }
        },
        { trace: [["L", "S!"]], result: text("S!", "L(S!)") }
      ]
    }
  }
}

/** JSON as the recordings write it: a space after each separator, only ASCII. */
const spaced = (value: Schema.Json): string => {
  if (Array.isArray(value)) return `[${value.map(spaced).join(", ")}]`
  if (isObject(value)) {
    return `{${Object.entries(value)
      .map(([key, member]) => `${spaced(key)}: ${spaced(member)}`)
      .join(", ")}}`
  }
  return JSON.stringify(value).replace(
    /[\u0080-\uffff]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`
  )
}

const constants = (value: Schema.Json): ReadonlyArray<Schema.Json> => {
  if (Array.isArray(value)) return value.flatMap(constants)
  if (!isObject(value)) return []
  const own = value["const"]
  const inside = Object.values(value).flatMap(constants)
  return own !== undefined && typeof own === "object" && own !== null ? [own, ...inside] : inside
}

const mapText = (value: Schema.Json, f: (text: string) => string): Schema.Json => {
  if (typeof value === "string") return f(value)
  if (Array.isArray(value)) return value.map((item) => mapText(item, f))
  return isObject(value) ? Object.fromEntries(Object.entries(value).map(([key, item]) => [key, mapText(item, f)])) : value
}

/** A plan that is refused when it is loaded, so that nothing of it runs. */
const refusedPlan =
  (wrong: (steps: ReadonlyArray<Json>) => boolean) =>
  ({ given }: Case): Json | undefined => {
    const steps = stepsOf(given["plan"])
    if (!wrong(steps)) return undefined
    const refused = run([], raised("PlanInvalid"))
    const phases = Array.isArray(given["phases"]) ? given["phases"] : []
    return { ...refused, RAISED: "PlanInvalid", phases: phases.map(() => refused) }
  }

const position = (steps: ReadonlyArray<Json>, name: unknown): number => steps.findIndex((step) => step["name"] === name)

const isParallel = (step: Json | undefined): boolean => step?.["parallel"] === true

const references = (step: Json): ReadonlyArray<Json> => [step["task"], step["context"]].flat().filter(isObject)

/** Whether a member of a band ended well in a phase. */
const endsWell = (phase: Json, name: string): boolean => {
  const fixtures = phase["fx"]
  const fixture = isObject(fixtures) ? fixtures[name] : undefined
  return !isObject(fixture) || !["fail", "pause", "conclude", "seq"].some((kind) => kind in fixture)
}

/** What a resume calls, without the members of a band that ended well before. */
const withoutDone = ({ expect, given }: Case): Json | undefined => {
  const phases = Array.isArray(given["phases"]) ? given["phases"].filter(isObject) : []
  const expected = Array.isArray(expect["phases"]) ? expect["phases"].filter(isObject) : []
  const members = new Set(stepsOf(given["plan"]).flatMap((step) => (isParallel(step) ? [step["name"]] : [])))
  const traceOf = (phase: Json | undefined): ReadonlyArray<Schema.Json> => {
    const trace = phase?.["trace"]
    return Array.isArray(trace) ? trace : []
  }
  const nameOf = (call: Schema.Json): string => (Array.isArray(call) ? String(call[0]) : "")
  const left = expected.map((phase, index) => {
    if (phases[index]?.["resume"] !== true) return phase
    const before = phases[index - 1]
    const done = new Set(
      traceOf(expected[index - 1]).flatMap((call) => {
        const name = nameOf(call)
        return before !== undefined && members.has(name) && endsWell(before, name) ? [name] : []
      })
    )
    return { ...phase, trace: traceOf(phase).filter((call) => !done.has(nameOf(call))) }
  })
  return expected.length === 0 ? undefined : { ...expect, phases: left }
}

export const rules: ReadonlyArray<Rule> = [
  {
    reason: "PLAN-6: a member of a band that completed does not run again when the band is resumed",
    adjust: withoutDone
  },
  {
    reason: "S9.5 ADVICE: two steps that write one key are refused, unless only one of them can run",
    adjust: refusedPlan((steps) => {
      const keys = steps.flatMap(({ writes }) => (typeof writes === "string" && writes !== "" ? [writes] : []))
      return new Set(keys).size < keys.length
    })
  },
  {
    reason: "S7.5 ADVICE: a rejoin at or before the target of a route is refused",
    adjust: refusedPlan((steps) =>
      steps.some((step) => {
        const rejoin = position(steps, step["after_branches"])
        const targets = Array.isArray(step["routes"]) ? step["routes"] : []
        return rejoin >= 0 && targets.some((target) => position(steps, target) >= rejoin)
      })
    )
  },
  {
    reason: "S11.2.14 DEFECT: a rejoin in the middle of a band is refused",
    adjust: refusedPlan((steps) =>
      steps.some((step) => {
        const rejoin = position(steps, step["after_branches"])
        return rejoin > 0 && isParallel(steps[rejoin]) && isParallel(steps[rejoin - 1])
      })
    )
  },
  {
    reason: "D21 RECOMMENDED: no member of a band can read the band",
    adjust: refusedPlan((steps) =>
      steps.some((step, index) =>
        references(step).some((reference) => {
          const first = position(steps, reference["name"])
          return reference["kind"] === "from_parallel_all" && first >= 0 && steps.slice(first, index + 1).every(isParallel)
        })
      )
    )
  },
  {
    reason: "S2.1 ADVICE: one text for one value, the canonical one",
    adjust: ({ expect, given }) => {
      const values = constants(given)
      if (values.length === 0) return undefined
      const adjusted = mapText(expect, (found) =>
        values.reduce<string>((text, value) => text.replaceAll(spaced(value), Result.getOrThrow(Digest.canonicalize(value))), found)
      )
      return isObject(adjusted) ? adjusted : undefined
    }
  }
]
