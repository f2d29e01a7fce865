/** The chat in React: `useChat` of the AI SDK, unchanged, with a session behind it. */
import { useChat } from "@ai-sdk/react"
import * as ai from "ai"
import { createRoot } from "react-dom/client"
import { drawMarkdown } from "../page/markdown.js"

const { name } = await (await fetch("/visitor")).json()
const id = `${name}/react`
const query = new URLSearchParams({ id })

// The server keeps the messages. The page begins with them, and continues an answer that is being written
const messages = await (await fetch(`/sessions/chat/ui?${query}`)).json()
const transport = new ai.DefaultChatTransport({ api: "/sessions/chat/ui" })
const sendAutomaticallyWhen = ai.lastAssistantMessageIsCompleteWithApprovalResponses

const Call = ({
  decide,
  part
}: {
  part: ai.ToolUIPart | ai.DynamicToolUIPart
  decide: (approved: boolean) => void
}) => (
  <details open={part.state === "approval-requested"}>
    <summary>{`${ai.getToolName(part)} (${part.state})`}</summary>
    <pre>{JSON.stringify(part.output ?? part.input, undefined, 2)}</pre>
    {part.state === "approval-requested" && <button onClick={() => decide(true)}>Approve</button>}
    {part.state === "approval-requested" && <button onClick={() => decide(false)}>Deny</button>}
  </details>
)

const Chat = () => {
  const chat = useChat({ id, messages, transport, resume: true, sendAutomaticallyWhen })
  const isBusy = chat.status === "submitted" || chat.status === "streaming"
  const send = (form: FormData) => void chat.sendMessage({ text: String(form.get("text")) })
  const stop = () => fetch(`/sessions/interrupt?${query}`, { method: "POST" })
  return (
    <>
      {chat.messages.map(({ id, parts, role }) => (
        <article key={id} className={role} aria-label={role === "user" ? "You" : "Assistant"}>
          {parts.map((part, index) => {
            if (part.type === "text") return <div key={index} ref={(to) => void (to && drawMarkdown(to, part.text))} />
            if (!ai.isToolUIPart(part)) return null
            const decide = (approved: boolean) =>
              void (part.approval && chat.addToolApprovalResponse({ id: part.approval.id, approved }))
            return <Call key={index} part={part} decide={decide} />
          })}
        </article>
      ))}
      {chat.error && <p role="alert">{chat.error.message}</p>}
      <form action={send}>
        <input name="text" required autoComplete="off" aria-label="Message" placeholder="Write a message" />
        <button>Send</button>
        <button type="button" onClick={stop} hidden={!isBusy} children="Stop" />
      </form>
    </>
  )
}

createRoot(document.querySelector("main")!).render(<Chat />)
