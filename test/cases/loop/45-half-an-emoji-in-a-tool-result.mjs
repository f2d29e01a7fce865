export const source = "anthropics/claude-code#69927, #56064, #50019, #70618"
export const kind = "text that is no Unicode"
export const why =
  "A tool cuts its output through an emoji. Anthropic refuses a body with half a pair as no JSON, and each later request too: the conversation can never go on. What is sent is well formed (U+FFFD)."
export const right = { outcome: "Completed", wellFormed: true }
export default async (lib) => {
  const { serve, models, AiSdk, Effect, Layer, report, anthropicWhole, anthropicText } = lib
  const { kit, agent } = lib.tool((S) => S.Struct({}))
  const isBroken = (x) =>
    typeof x === "string"
      ? !x.isWellFormed()
      : typeof x === "object" && x !== null && Object.entries(x).some(([k, v]) => isBroken(k) || isBroken(v))
  const s = await serve((body, n) =>
    isBroken(body)
      ? {
          status: 400,
          json: {
            type: "error",
            error: {
              type: "invalid_request_error",
              message: "The request body is not valid JSON: no low surrogate in string"
            }
          }
        }
      : n === 0
        ? anthropicWhole([{ type: "tool_use", id: "tu", name: "t", input: {} }], "tool_use")
        : anthropicText("done")
  )
  const r = report(
    await Effect.runPromiseExit(
      agent
        .run("go")
        .pipe(
          Effect.provide(
            Layer.mergeAll(
              kit.toLayer({ t: () => Effect.succeed("caf\u00e9 \ud83d") }),
              AiSdk.model(models.anthropic(s.url))
            )
          )
        )
    )
  )
  s.close()
  return { outcome: r.ok ? r.outcome : r.error, wellFormed: s.bodies.every((b) => !isBroken(b)) }
}
