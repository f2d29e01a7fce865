export const source = "justrach/codegraff#748, openclaw/clawrouter#101"
export const kind = "provider error"
export const why =
  'A gateway answers 200 with a JSON body that is an error. The kind of error says that the answer was no answer, and the cause has the sentence of the provider; "network, try again" sends people the wrong way.'
export const right = { kind: "not NetworkError", cause: true }
export default async (lib) => {
  const { serve, models, AiSdk, Effect, AgentError, Agent, AgentEvent, Option } = lib
  const s = await serve(() => ({ json: { error: { message: "model is not loaded", type: "invalid_request_error" } } }))
  const e = await Effect.runPromiseExit(
    AgentEvent.result(Agent.make("a").stream("go")).pipe(Effect.provide(AiSdk.model(models.compat(s.url))))
  )
  s.close()
  const error = e.cause.reasons[0].error
  return {
    kind: error.reason.error === "NetworkError" ? "NetworkError" : "not NetworkError",
    cause: /model is not loaded/.test(String(Option.getOrUndefined(AgentError.causeOf(error.reason))?.message ?? ""))
  }
}
