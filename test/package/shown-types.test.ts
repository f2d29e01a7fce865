import { assert, describe, it } from "@effect/vitest"
import { mkdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { requireBuild, root, run } from "./run.ts"

const folder = join(root, ".generated", "shown-types")

const program = `
import { Context, Effect, Schema } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { Agent } from "effect-emissary"

class Ledger extends Context.Service<Ledger, number>()("Ledger") {}
const toolkit = Toolkit.make(Tool.make("pay"))
class Support extends Agent.Service<Support>()("support", { toolkit, instructions: Effect.as(Ledger, "Help.") }) {}
const lead = Agent.make("lead", {
  model: "provider/model",
  toolkit: [Agent.asTool(Support, { name: "support", description: "Helps" })],
  output: Schema.Struct({ answer: Schema.String })
})

export const layer: 1 = Support.layer
export const run: 1 = lead.run("Hi")
export const definition: 1 = Agent.encode(Support)
`

// without paths into src: the types come from the declarations that a user has
const config = {
  extends: "../../tsconfig.json",
  compilerOptions: { noErrorTruncation: true, paths: {} },
  include: ["./*.ts"]
}

describe("what an editor shows", () => {
  requireBuild()

  it("are the services that an agent requires, by their names", async () => {
    mkdirSync(folder, { recursive: true })
    writeFileSync(join(folder, "program.ts"), program)
    writeFileSync(join(folder, "tsconfig.json"), JSON.stringify(config))
    const { output } = await run("tsc", ["-p", folder, "--pretty", "false"])
    const shown = Array.from(output.matchAll(/Type '(.*)' is not assignable to type '1'/g), ([, type]) => type)
    assert.deepStrictEqual(
      shown,
      [
        `Layer<Support, AgentError, Handler<"pay"> | LanguageModel | Ledger>`,
        `Effect<Result<{ readonly answer: string; }>, AgentError, ModelRegistry | Support>`,
        `Effect<JsonObject, AgentError | LossyEncoding | PayloadError, Ledger>`
      ],
      output
    )
  })
})
