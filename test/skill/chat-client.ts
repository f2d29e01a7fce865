import { connect } from "effect-emissary/browser"

const input = process.argv[2]
const base = process.env["URL"]
if (input === undefined || base === undefined) {
  console.error("usage: URL=http://127.0.0.1:3000/sessions node chat-client.ts MESSAGE")
  process.exit(2)
}

const id = "ada/1"
const chat = connect({ url: base, token: process.env["PASSWORD"] ?? "s3cret" })
const messageId = crypto.randomUUID()
await chat.command("send", id, { input, messageId })

let mine = false
for await (const { event } of chat.events(id)) {
  if (event._tag === "MessageTaken" && event["messageId"] === messageId) mine = true
  if (!mine) continue
  if (event._tag === "Answered") {
    const content = event["content"] as ReadonlyArray<{ readonly type: string; readonly text?: string }>
    console.log(content.map((part) => part.text ?? "").join(""))
  }
  if (event._tag === "TurnFailed") {
    console.error("the turn failed", event)
    process.exitCode = 1
    break
  }
  if (event._tag === "TurnFinished") break
}
