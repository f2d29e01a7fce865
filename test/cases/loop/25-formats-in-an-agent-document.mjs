export const source = "brother of google-gemini/gemini-cli#6948 (ours)"
export const kind = "JSON Schema from outside"
export const why = "An agent from outside whose tool has an int64 decodes."
export const right = { decoded: true }
export default async (lib) => {
  const { Agent, Effect, ToolResolver, ModelRegistry, ScriptedModel } = lib
  const wire = {
    schema_version: 1,
    riffer_version: "1",
    identifier: "a",
    model: "mock/m",
    instructions: "x",
    model_options: {},
    max_steps: 16,
    structured_output: null,
    tools: [
      {
        name: "t",
        description: "d",
        parameters_schema: {
          type: "object",
          properties: { n: { type: "integer", format: "int64" } },
          required: ["n"],
          additionalProperties: false
        },
        timeout: 10
      }
    ]
  }
  const e = await Effect.runPromiseExit(
    Agent.decodeJson(JSON.stringify(wire)).pipe(
      Effect.provide([ToolResolver.layerStubs(), ModelRegistry.layerContext]),
      Effect.provide(ScriptedModel.layer([]))
    )
  )
  return { decoded: e._tag === "Success" }
}
