/**
 * A research pipeline, sent as data.
 *
 * The plan is written here, encoded, and decoded again with a registry that has its functions and agents. Its tools are
 * only names until it is bound with a toolkit.
 */
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import { Console, Effect, Schema } from "effect"
import { Plan } from "effect-emissary/plan"
import { ScriptedModel } from "effect-emissary/testing"

import { Tool, Toolkit } from "effect/ai"
import assert from "node:assert"
import { fetch, plan, reportPlan } from "./plan.ts"

const text = { task: Schema.String }
const Tools = Toolkit.make(
  Tool.make("apologize", { parameters: Schema.Struct(text), success: Schema.String }),
  Tool.make("publish", { parameters: Schema.Struct({ ...text, context: Schema.String }), success: Schema.String })
)
const toolsLayer = Tools.toLayer({
  apologize: ({ task }) => Effect.succeed(`Nothing is known of ${task}.`),
  publish: ({ context, task }) => Effect.succeed(`${context}: ${task}`)
})

const model = ScriptedModel.layer((request) => ({ text: `In short: ${request.messages.at(-1)?.text ?? ""}` }))

Effect.gen(function* () {
  const json = yield* Plan.codec.encodeJson((yield* plan).definition)
  yield* Console.log(`${json.length} characters of JSON`)

  const report = yield* Plan.bind(yield* reportPlan)
  const decoded = yield* Plan.decode(json, { targets: { fetch, report } })
  const research = yield* Plan.bind(decoded, { toolkit: Tools })

  for (const topic of ["effects", "comonads"]) {
    const result = yield* Plan.run(research, topic)
    assert(result.outcome === "Completed")
    yield* Console.log(result.text)
    yield* Console.log(`  (${result.iterations} steps; hits: ${JSON.stringify(result.writes.get("hits"))})`)
  }
}).pipe(Effect.provide([toolsLayer, model]), NodeRuntime.runMain)
