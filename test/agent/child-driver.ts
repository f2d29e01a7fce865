import type { DateTime } from "effect"
import { Conversation, ToolResult, type Message, Run } from "effect-emissary"
import { digestOf } from "../decisions.ts"

/** An agent inside the run of an agent or of a plan, for the drivers without fibers of both. */
export interface Child {
  readonly name: string
  readonly state: () => Run.State | undefined
  readonly put: (event: Run.Event) => void
  readonly stopped: () => boolean
  readonly at: () => DateTime.Utc
  readonly base: () => { readonly id: string; readonly createdAt: DateTime.Utc }
  /** The tool call of its first answer, if it makes one, and whether the call is to be approved. */
  readonly call: { readonly id: string; readonly name: string; readonly approval: boolean } | undefined
  readonly resumes: (state: Run.State) => boolean
}

/** Drives it until it is finished, waits for an approval, or is stopped. */
export const drive = (child: Child): "finished" | "waiting" | "stopped" => {
  const { at, base, call, name, put, state, stopped } = child
  const finish = (callId: string, name: string, result: ToolResult.ToolResult) =>
    put({ _tag: "ToolFinished", at: at(), message: { role: "tool", ...base(), callId, name, result } })

  const before = state()
  if (before === undefined) {
    put({
      _tag: "RunStarted",
      at: at(),
      runId: name,
      agent: name,
      definition: "sha256:child",
      depth: 1,
      maxSteps: 4,
      structured: "never",
      context: {},
      conversation: Conversation.empty
    })
    if (stopped()) return "stopped"
    const content = [{ type: "text", text: "do it" }] as const
    put({ _tag: "InputAdded", at: at(), message: { role: "user", ...base(), content }, maxSteps: 4 })
  } else if (child.resumes(before)) {
    put({ _tag: "RunResumed", at: at() })
  }
  for (;;) {
    const self = state()
    if (stopped() || self === undefined) return "stopped"
    const action = Run.next(self)
    switch (action._tag) {
      case "CallModel": {
        if (self.step === undefined) put({ _tag: "StepStarted", at: at(), step: action.step, purpose: action.purpose })
        if (stopped()) return "stopped"
        const content: ReadonlyArray<Message.AssistantPart> =
          action.step === 1 && call !== undefined
            ? [{ type: "tool-call", id: call.id, name: call.name, arguments: {} }]
            : []
        const message = { role: "assistant", ...base(), content, usage: { inputTokens: 100 } } as const
        put({ _tag: "ModelAnswered", at: at(), message })
        break
      }
      case "RunTools":
        for (const settled of action.settled) finish(settled.callId, settled.name, settled.result)
        for (const { approved, part } of action.calls) {
          if (stopped()) return "stopped"
          if (call?.approval === true && !approved) {
            put({
              _tag: "ApprovalRequested",
              at: at(),
              callId: part.id,
              name: part.name,
              arguments: part.arguments,
              digest: digestOf(part.id)
            })
            continue
          }
          put({ _tag: "ToolStarted", at: at(), callId: part.id })
          if (stopped()) return "stopped"
          finish(part.id, part.name, ToolResult.success("done"))
        }
        break
      case "Finished":
        if (self.outcome === undefined) put({ _tag: "RunFinished", at: at(), outcome: action.outcome })
        if (action.outcome._tag === "AwaitingApproval") return "waiting"
        return stopped() ? "stopped" : "finished"
    }
  }
}
