// What providers refuse in messages of Chat Completions: a result without its call right in front, a call without a result, an empty answer.
export const refusals = (messages) => {
  const out = []
  let open = new Set()
  for (const [i, m] of messages.entries()) {
    if (m.role === "tool") {
      if (!open.delete(m.tool_call_id)) out.push(`${i}: result ${m.tool_call_id} without a call`)
      continue
    }
    if (open.size > 0) out.push(`${i}: open calls ${[...open]}`)
    open = new Set((m.tool_calls ?? []).map((c) => c.id))
    if (
      m.role === "assistant" &&
      !m.tool_calls &&
      (m.content === null || m.content === undefined || m.content === "" || m.content.length === 0)
    )
      out.push(`${i}: empty answer`)
  }
  if (open.size > 0) out.push(`open calls at the end ${[...open]}`)
  return out
}
