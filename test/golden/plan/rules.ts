/** Where the library differs from the recordings of plans on purpose, and what it does not have. */
import { Option, Result, Schema } from "effect"
import { type Case, type Deviation, isObject, type Json, list, objects, type Omission } from "../family.ts"
import { proven, provenOf } from "../proven.ts"
import { type Advice, manyOf, phasesOf, runOf } from "./model.ts"
import * as V from "./vocabulary.ts"

/** The plan of a case on the wire. */
const planOf = ({ given }: Pick<Case, "given">): Json => {
  const plan = given["plan"] ?? given["from_dict"] ?? given["from_dict then to_dict"]
  return isObject(plan) ? plan : {}
}

/** The references of a step as they are on the wire. */
const slots = (step: Json): ReadonlyArray<Schema.Json> =>
  [step["task"], step["context"]].flat().filter((slot) => slot !== undefined && slot !== null)

const references = (step: Json): ReadonlyArray<Json> => slots(step).filter(isObject)

interface When {
  readonly reason: string
  readonly cases?: string
}

/** Cases with such steps expect something else. */
const steps = (when: When, wrong: (steps: ReadonlyArray<Json>) => boolean, expect: (golden: Case) => Json): Deviation => ({
  ...when,
  expect: (golden) => (wrong(V.stepsOf(planOf(golden))) ? expect(golden) : undefined)
})

/** A wire that is refused when it is read. */
const refusedWire = (when: When, wrong: (steps: ReadonlyArray<Json>) => boolean, ...mention: ReadonlyArray<string>) =>
  steps(when, wrong, () => ({ RAISED: "ValueError", "our message must mention": mention }))

/** A plan that is refused when it is made, so that nothing of it runs. */
const refusedPlan = (when: When, wrong: (steps: ReadonlyArray<Json>) => boolean) =>
  steps(when, wrong, ({ expect }): Json => {
    const refused = { trace: [], result: { RAISED: "PlanInvalid" } }
    if ("phases" in expect) return { phases: list(expect["phases"]).map(() => refused) }
    if ("results" in expect) return { results: { RAISED: "PlanInvalid" } }
    return "trace" in expect ? refused : { RAISED: "PlanCompileError" }
  })

/** Each advice that the interpreter takes: why, and the recorded cases that differ by it. */
const advice: { readonly [A in Advice]: readonly [reason: string, cases: string] } = {
  "input task": ["S4.1 ADVICE: an input without a payload has its task for one", "E03"],
  "context for tools": ["S5.6 ADVICE: every target that can take context gets it, also one that is called by the name of a tool", ""],
  "context text": ["S5.3 ADVICE: payloads that are no text count as context by their text", "E10 E11"],
  "output decoded": ["S5.8 ADVICE: the output of a step is decoded with its output schema", "E23"],
  "plain routing": ["S25.7: payloads are plain objects here, and routesBy reads their own properties", "F13"],
  "rejoin stack": ["S7.5 ADVICE: rejoins are a stack: a branch ends at its rejoin, wherever it continued", "F16 F18"],
  "missing member": ["S4.3 ADVICE: a band that did not run is an error like a step that did not", "F28"],
  "canonical text": ["S2.1 ADVICE: one text for one value, the canonical one", "E15"],
  "recorded result": ["S6.1: a run that is done returns its recorded result", "I05"],
  "counter kept": ["S13.6 ADVICE: a run that used up its iterations has failed, and its counter continues", "I08"],
  "empty plan": ["S13.6 DEFECT: a plan without steps is done, and does not hold its key for ever", "I21"],
  "band resumed": ["PLAN-6: a member of a band that completed does not run again when the band is resumed", ""],
  "route chosen anew": ["PLAN-6: nothing that completed runs again; only the route is chosen anew", "I16"],
  "loop state kept": ["S13.8 ADVICE: the loop state is kept, so that the step gets the value it failed with", "I18"]
}

/** A run that ends differently in the naive interpreter, because it took an advice. */
const advised = Object.entries(advice).map(([name, [reason, cases]]): Deviation => ({
  reason,
  cases,
  expect: (golden) => {
    // A plan that the interpreter cannot follow is judged by no advice.
    const modelled = Result.getOrUndefined(Result.try(() => modelOf(golden)))
    return modelled?.noted.has(name) === true ? { ...modelled.expect } : undefined
  }
}))

const decoded = <A, I>(schema: Schema.Codec<A, I>, given: Json): A =>
  Option.getOrThrow(Schema.decodeUnknownOption(schema)(given))

const modelOf = ({ expect, given }: Case): { readonly expect: Json; readonly noted: ReadonlySet<string> } | undefined => {
  if ("phases" in given) return phasesOf(decoded(V.Phases, given))
  if ("run_many" in given) return "checkpoint_key" in given ? undefined : manyOf(decoded(V.Many, given))
  return "plan" in given && "trace" in expect ? runOf(decoded(V.Running, given)) : undefined
}

const mapText = (value: Schema.Json, f: (text: string) => string): Schema.Json => {
  if (typeof value === "string") return f(value)
  if (Array.isArray(value)) return value.map((item) => mapText(item, f))
  return isObject(value) ? mapValues(value, (item) => mapText(item, f)) : value
}

const mapValues = (object: Json, f: (value: Schema.Json, key: string) => Schema.Json): Json =>
  Object.fromEntries(Object.entries(object).map(([key, value]) => [key, f(value, key)]))

/** The keys of the expectation that a difference is about, changed; nothing if none of them is. */
const changed = (expect: Json, f: (value: Schema.Json, key: string) => Schema.Json): Json | undefined => {
  const after = mapValues(expect, f)
  return JSON.stringify(after) === JSON.stringify(expect) ? undefined : after
}

const wire: ReadonlyArray<Deviation> = [
  {
    reason: "S18.4: a version that is not known is refused, not read as if it were",
    cases: "A15",
    expect: (golden) =>
      [1, 2, undefined].some((version) => version === planOf(golden)["version"])
        ? undefined
        : { RAISED: "UnsupportedVersion", "our message must mention": ["version"] }
  },
  refusedWire(
    { reason: "A18 RECOMMENDED: a literal that is no text is refused", cases: "A18" },
    (all) => all.flatMap(references).some(({ kind, value }) => kind === "literal" && typeof value !== "string"),
    "value"
  ),
  refusedWire(
    { reason: "S18.6: what is no reference is refused where it is read, not when it is used", cases: "D48" },
    (all) => all.flatMap(slots).some((slot) => !isObject(slot)),
    "reference"
  ),
  refusedWire(
    { reason: "S18.7 DEFECT: the name check ends at the end of the name", cases: "A23" },
    (all) => all.flatMap(references).some(({ name }) => typeof name === "string" && name.endsWith("\n")),
    "name"
  ),
  {
    reason: "S5.5: what is neither a tool nor an agent is called a function",
    cases: "",
    expect: ({ expect }) =>
      changed(expect, (value, key) =>
        key === "our message must mention" ? list(value).map((name) => (name === "callable" ? "function" : name)) : value
      )
  },
  {
    reason: "S19: the check of references returns what it finds, and never crashes",
    cases: "",
    expect: ({ expect, given }) => ("steps" in given && "RAISED" in expect ? { errors: [] } : undefined)
  },
  {
    reason: "S18.5: a function without a name of its own is named after its step, so that no two share one",
    cases: "A26",
    expect: ({ expect }) =>
      changed(expect, (saved) =>
        isObject(saved) && Array.isArray(saved["steps"])
          ? {
              ...saved,
              steps: objects(saved["steps"]).map((step) => {
                // A step always has a name here: the program calls this one "first".
                const name = step["name"] === "<lambda>" ? "first" : (step["name"] ?? null)
                const isNameless = ["<lambda>", "anon"].includes(V.targetOf(step).name)
                return { ...step, name, target: isNameless ? { kind: "callable", name } : (step["target"] ?? null) }
              })
            }
          : saved
      )
  }
]

const checks: ReadonlyArray<Deviation> = [
  steps(
    { reason: "S11.2.10 ADVICE: types are compared along the edges that data follows", cases: "D23" },
    (all) => all.some(({ input, task }) => input !== undefined && isObject(task) && task["kind"] !== "from_prev"),
    () => ({ OK: true })
  ),
  refusedPlan(
    { reason: "S1.8 ADVICE: structural rules are checked when the plan is made", cases: "D61" },
    (all) => {
      const names = all.map(({ name }) => name)
      const unknown = all.flatMap((step, index) =>
        references(step).filter(({ name }) => name !== undefined && !names.slice(0, index).includes(name))
      )
      return new Set(names).size < names.length || unknown.length > 0
    }
  ),
  refusedPlan(
    { reason: "S9.5 ADVICE: two steps of one parallel group that write one key are refused", cases: "" },
    (all) =>
      all.some(({ parallel, writes }, index) => {
        const before = all.slice(0, index)
        const group = before.slice(before.findLastIndex((step) => step.parallel !== true) + 1)
        return parallel === true && writes !== "" && group.some((step) => step.writes !== undefined && step.writes === writes)
      })
  ),
  refusedPlan({ reason: "S7.5 ADVICE: a rejoin at or before the target of a route is refused", cases: "F15" }, (all) =>
    all.some((step) => {
      const rejoin = V.position(all, step["after_branches"])
      return rejoin >= 0 && list(step["routes"]).some((target) => V.position(all, target) >= rejoin)
    })
  ),
  refusedPlan({ reason: "S11.2.14 DEFECT: a rejoin in the middle of a band is refused", cases: "" }, (all) =>
    all.some((step) => {
      const rejoin = V.position(all, step["after_branches"])
      return rejoin > 0 && V.isParallel(all[rejoin]) && V.isParallel(all[rejoin - 1])
    })
  ),
  refusedPlan({ reason: "D21 RECOMMENDED: no member of a band can read the band", cases: "D21 G10" }, (all) =>
    all.some((step, index) =>
      references(step).some((reference) => {
        const first = V.position(all, reference["name"])
        return reference["kind"] === "from_parallel_all" && first >= 0 && all.slice(first, index + 1).every(V.isParallel)
      })
    )
  )
]

const runs: ReadonlyArray<Deviation> = [
  ...advised,
  {
    reason: "S13.3, S22.6: what is no checkpoint of ours is refused as unreadable: it is neither trusted nor overwritten",
    cases: "I10 I11 I13 I20 I25 I26",
    expect: ({ expect, given }) =>
      "pre-existing value at ck" in given
        ? { phases: list(expect["phases"]).map(() => ({ trace: [], result: { RAISED: "Unreadable" } })) }
        : undefined
  },
  {
    reason: "S25.5: the spelling of the host language for nothing is no text",
    cases: "J03",
    expect: ({ expect }) => changed(expect, (value) => mapText(value, (text) => text.replaceAll(/\bNone\b/gu, "")))
  }
]

const numberAt = (value: Json, key: string): number => Number(value[key] ?? 0)

const watching: ReadonlyArray<Deviation> = [
  {
    reason: "S17.1: events hold the record of the step itself, so that nothing is cut off",
    cases: "K06",
    expect: ({ expect, given }) => {
      const texts = isObject(given["fixtures"]) ? Object.values(given["fixtures"]) : []
      const [constant] = texts.flatMap((fixture) => (isObject(fixture) ? [fixture["const"]] : []))
      return changed(expect, (value, key) =>
        key.endsWith(" length") && typeof constant === "string" ? constant.length : value
      )
    }
  },
  {
    reason: "S17.3 ADVICE: the final text is emitted once, also where the last step has no tokens",
    cases: "K11",
    expect: ({ expect, given }) => {
      const last = V.stepsOf(planOf({ given })).at(-1)
      const modelled = last === undefined || !Array.isArray(expect["chunks"]) ? undefined : runOf(decoded(V.Running, given))
      const result = modelled?.expect.result
      if (last === undefined || result === undefined || V.isRaised(result)) return undefined
      return V.targetOf(last).kind === "callable" ? { chunks: [...list(expect["chunks"]), result.text] } : undefined
    }
  },
  {
    reason: "S12.2 DEFECT: usage counts once, also where the run pauses or its iterations are used up",
    cases: "L03",
    expect: ({ expect }) => {
      const counted = ["input_tokens", "output_tokens"].map((key) => [`nested_${key}`, numberAt(expect, key)] as const)
      if (!counted.every(([nested, direct]) => direct > 0 && numberAt(expect, nested) >= direct)) return undefined
      return { ...expect, ...Object.fromEntries(counted.map(([nested, direct]) => [nested, numberAt(expect, nested) - direct])) }
    }
  },
  {
    reason: "PLAN-3: a condition never fails; false is not 0 in JSON (S25.8)",
    cases: "M01",
    expect: ({ expect, given: { payload } }) => {
      if (payload === undefined) return undefined
      const comparesBoolean = (written: string) =>
        isObject(payload) && typeof payload[written.split(".")[0] ?? ""] === "boolean" && /\((0|1)\)$/u.test(written)
      return changed(expect, (value, written) => {
        if (typeof value === "string" && value.startsWith("RAISES")) return false
        return comparesBoolean(written) && typeof value === "boolean" ? written.includes(".not_") : value
      })
    }
  }
]

/** Cases that are described in prose, with programs in `prose.ts`: judged by their expectation. */
const prose: ReadonlyArray<Deviation> = [
  {
    reason: "S16.2 DEFECT: a pause inside pauses the outside, too",
    cases: "J20",
    expect: ({ expect }) => {
      const { "outer checkpoint": outer, error } = expect
      return isObject(error) && error["type"] === "PlanPaused" && isObject(outer)
        ? { ...expect, "outer checkpoint": { ...outer, status: "paused" } }
        : undefined
    }
  },
  {
    reason: "S9.4 DEFECT: an empty store is a store",
    cases: "O01",
    expect: ({ expect }) => (Array.isArray(expect["keys"]) && expect["keys"].length === 0 ? { keys: ["w"] } : undefined)
  },
  {
    reason: "S5.3 DEFECT: a memory counts once",
    cases: "O11",
    expect: ({ expect }) => changed(expect, (value) => mapText(value, (text) => text.replace(/^([^]+)\n\n\1$/u, "$1")))
  },
]

export const deviations: ReadonlyArray<Deviation> = [...wire, ...checks, ...runs, ...watching, ...prose]

const saying = (pattern: RegExp) => ({ given: { desc } }: Case) => typeof desc === "string" && pattern.test(desc)

export const omissions: ReadonlyArray<Omission> = [
  {
    reason: "described in prose, and proven by a test that names it",
    cases: provenOf(/^[A-O]/u),
    covers: (golden) => proven.has(golden.id) && "desc" in golden.given
  },
  {
    reason: "an input that carries an error: failures are in the error channel, so that no input has one (S10.1 ADVICE)",
    cases: "E25 E26",
    covers: ({ given: { input } }) => isObject(input) && isObject(input["error"])
  },
  {
    reason: "options of a constructor: a fork is one policy of starting a run, resuming a method, and no buffer an option",
    cases: "J13 J15",
    covers: ({ given }) => "options" in given
  },
  {
    reason: "a predicate that is no function: TypeScript refuses it where the plan is written",
    cases: "D51",
    covers: saying(/^routes=\{'\w+':'/u)
  },
  {
    reason: "an agent around a plan: a plan is an agent and has a name, so nothing wraps it",
    cases: "D60",
    covers: saying(/^Agent\(engine=Plan/u)
  },
  {
    reason: "a descriptor of a graph of agents (S20): nothing here reads or writes one, and a plan is drawn from its definition",
    cases: "N01 N03 N05 N06 N08 N10",
    covers: ({ given, id }) => id.startsWith("N") || "data" in given
  },
  {
    reason: "a store given to one call: the store is a service here, and there is one",
    cases: "O03",
    covers: saying(/run\(store=/u)
  },
]
