/** The page of the chat: it draws the log of a session, and sends what a person does. `log.js` knows what the events mean. */
import { formOf } from "./form.js"
import { addBatch, apply, applyHistory, emptyLog } from "./log.js"
import { drawMarkdown } from "./markdown.js"
import { connect, SessionsError } from "./sessions.js"

const $ = (id) => document.getElementById(id)

const on = (id, type, act) => $(id).addEventListener(type, act)

/** An element: `h("button.plain", { onclick }, "Text")`. Children are nodes and texts, so no text becomes HTML. */
const h = (name, properties = {}, ...children) => {
  const [tag, ...classes] = name.split(".")
  const made = document.createElement(tag)
  if (classes.length > 0) made.className = classes.join(" ")
  for (const [key, value] of Object.entries(properties)) {
    if (key.startsWith("on") || key in made) made[key] = value
    else if (value !== undefined) made.setAttribute(key, value)
  }
  made.append(...children.filter((child) => child !== undefined))
  return made
}

const icon = (name) => {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg")
  const use = document.createElementNS("http://www.w3.org/2000/svg", "use")
  use.setAttribute("href", `#i-${name}`)
  svg.setAttribute("aria-hidden", "true")
  svg.append(use)
  return svg
}

const iconButton = (name, label, onclick) =>
  h("button.icon", { type: "button", onclick, title: label, "aria-label": label }, icon(name))

const store = {
  get: (key) => JSON.parse(localStorage.getItem(key) ?? "null"),
  set: (key, value) => {
    try {
      if (value === undefined) localStorage.removeItem(key)
      else localStorage.setItem(key, JSON.stringify(value))
    } catch {
      // A picture may be larger than the browser keeps: the message is sent all the same
    }
  }
}

// The connection

const visitor = fetch("/visitor").then((response) => response.json())
const server = connect({ url: "/sessions", token: () => visitor.then(() => undefined) })

const alarm = (error) => {
  const text = error instanceof SessionsError ? error.message : "There is no connection. Try again in a moment."
  const shown = h(
    "p",
    {},
    text,
    iconButton("close", "Close", () => shown.remove())
  )
  $("alerts").append(shown)
  setTimeout(() => shown.remove(), 8000)
}

/** Sends a command, and shows why it was refused. */
const command = (name, body, id = open.id) => server.command(name, id, body).catch(alarm)

// The chat that is open

/** @type {any} */
let open = { id: undefined, log: emptyLog(), outbox: new Map() }

const isPassing = (error) =>
  !(error instanceof SessionsError) || error.status >= 500 || [408, 429].includes(error.status)

const pause = (millis) => new Promise((resolve) => setTimeout(resolve, millis))

const outboxKey = (id) => `outbox ${id}`

const keepOutbox = (chat) => store.set(outboxKey(chat.id), chat.outbox.size > 0 ? [...chat.outbox.values()] : undefined)

/** Sends a message until the server has it. It has an id of its own, so a second attempt is no second message. */
const deliver = async (chat, message) => {
  const { messageId, input, title } = message
  message.problem = undefined
  for (let wait = 500; chat.outbox.has(messageId); wait = Math.min(8000, wait * 2)) {
    try {
      await server.command("send", chat.id, { messageId, input, title, whenBusy: "steer" })
      store.set(outboxKey(chat.id), undefined)
      return
    } catch (error) {
      if (!isPassing(error)) {
        message.problem = error.message
        return draw()
      }
      await Promise.race([pause(wait), new Promise((resolve) => addEventListener("online", resolve, { once: true }))])
    }
  }
}

const discard = (chat, messageId) => {
  chat.outbox.delete(messageId)
  keepOutbox(chat)
  draw()
}

/** Reads the events of a chat until it is left: first those that are stored, then new ones, and the text that is being written. */
const follow = async (chat) => {
  const { signal } = (chat.reading = new AbortController())
  const onStatus = (status) => {
    chat.isLost = status === "waiting"
    draw()
  }
  while (!signal.aborted) {
    try {
      for await (const entry of server.events(chat.id, { after: chat.after, signal, onStatus })) {
        chat.after = entry.cursor
        if (entry.event._tag === "SessionForked") applyHistory(chat.log, (await historyOf(chat)).messages)
        apply(chat.log, entry)
        makeCalls(chat)
        draw()
      }
      return
    } catch (error) {
      if (signal.aborted) return
      const tag = error.error?.reason._tag
      if (tag !== "EventsUnknown" && tag !== "EventsPruned") {
        chat.problem = error.message
        return draw()
      }
      // The first events are no longer kept, or the session was begun again: the history has the messages
      const { cursor, messages } = await historyOf(chat)
      const state = await stateOf(chat)
      chat.log = emptyLog()
      chat.after = cursor
      applyHistory(chat.log, messages)
      for (const request of state?.requests ?? []) {
        apply(chat.log, { cursor, sequence: state.sequence, event: { _tag: "Requested", request } })
      }
      addBatch(chat.log, state ?? {})
    }
  }
}

const historyOf = ({ id }) => server.query("chat/history", { id })

const stateOf = ({ id }) => server.query("chat/state", { id })

const openChat = (id) => {
  open.reading?.abort()
  $("log").replaceChildren()
  const outbox = new Map((id === undefined ? [] : (store.get(outboxKey(id)) ?? [])).map((one) => [one.messageId, one]))
  open = { id, log: emptyLog(), outbox, isNew: id === undefined }
  isAtEnd = true
  if (id !== undefined) void follow(open)
  for (const message of outbox.values()) void deliver(open, message)
  $("input").value = sessionStorage.getItem(`draft ${id}`) ?? ""
  files.splice(0)
  drawFiles()
  grow()
  draw()
}

const newId = async () => `${(await visitor).name}/${crypto.randomUUID()}`

const titleOf = (text) => {
  const line = text.trim().split("\n")[0]
  return line.length > 60 ? `${line.slice(0, 57)}…` : line || "Pictures"
}

const say = async (text, attached = []) => {
  const input = [...(text.trim() === "" ? [] : [{ type: "text", text }]), ...attached]
  if (input.length === 0) return
  if (open.id === undefined) {
    open.id = await newId()
    history.pushState(undefined, "", `#${open.id}`)
    void follow(open)
  }
  const message = { messageId: crypto.randomUUID(), input, title: open.log.sequence === 0 ? titleOf(text) : undefined }
  open.outbox.set(message.messageId, message)
  keepOutbox(open)
  isAtEnd = true
  draw()
  await deliver(open, message)
}

const fork = async (item) => {
  const to = await newId()
  const title = list.find(({ id }) => id === open.id)?.title
  const forked = await command("fork", { to, at: item.cursor })
  if (forked === undefined) return
  if (title) await command("update", { title: `${title} (fork)` }, to)
  location.hash = to
}

/** Decides requests. With the digest of their batch they are decided as one. */
const decide = (requests, approved, reason, batch) => {
  const why = reason.trim() === "" ? undefined : reason.trim()
  const decisions = requests.map(({ callId, digest, path }) => ({ callId, digest, path, approved, reason: why, batch }))
  return command("decide", { decisions })
}

/** The bytes of files of a message that is edited are sent again. */
const inline = async (part) =>
  part.type !== "file" || part.data.type !== "url"
    ? part
    : { ...part, data: await readData(await server.file(part.data.url)) }

const edit = async (item, text) => {
  const rest = await Promise.all(item.content.filter(({ type }) => type === "file").map(inline))
  const input = [...(text.trim() === "" ? [] : [{ type: "text", text }]), ...rest]
  item.isEdited = false
  item.version++
  draw()
  if (input.length > 0) await command("edit", { messageId: item.id, input, newMessageId: crypto.randomUUID() })
}

const askAgain = (item) => command("edit", { messageId: item.id, newMessageId: crypto.randomUUID() })

// Drawing

let isDrawn = true

/** Draws once for all events of a frame. A hidden tab has no frames, and needs none. */
const draw = () => {
  if (!isDrawn) return
  isDrawn = false
  requestAnimationFrame(() => {
    isDrawn = true
    drawNow()
  })
}

/** Brings the children of an element in step with the items: each has an element of its own, drawn again where its version is another one. */
const sync = (target, items, key, drawItem) => {
  const there = new Map([...target.children].map((child) => [child.key, child]))
  items.forEach((item, index) => {
    const id = key(item)
    let child = there.get(id)
    if (child === undefined) {
      child = drawItem(item)
      child.key = id
      child.version = item.version
    } else if (child.version !== item.version) {
      drawItem(item, child)
      child.version = item.version
    }
    there.delete(id)
    if (target.children[index] !== child) target.insertBefore(child, target.children[index] ?? null)
  })
  for (const gone of there.values()) gone.remove()
}

const textOf = (content) =>
  content
    .filter((part) => part?.type === "text")
    .map(({ text }) => text)
    .join("\n")

/** Enter sends. Enter that ends a word of an input method does not. */
const isSent = ({ isComposing, key, shiftKey }) => key === "Enter" && !shiftKey && !isComposing

const copy = (text) => navigator.clipboard.writeText(text).then(() => announce("Copied."), alarm)

/** A picture or another file of a message. Its address is one of the server, or the data that is on its way there. */
const drawFile = ({ data, fileName, mediaType }) => {
  const address = data.type === "base64" ? `data:${mediaType};base64,${data.base64}` : data.url
  const src = address.startsWith("data:") ? address : `/sessions/file${new URL(address, "http://x/").search}`
  const name = fileName ?? "file"
  if (/^image\/(png|jpeg|gif|webp|avif)$/.test(mediaType) && (data.type === "base64" || !/^https?:/.test(address))) {
    return h("a", { href: src, target: "_blank" }, h("img", { src, alt: name, loading: "lazy" }))
  }
  return h("a.file", { href: src, download: name }, name)
}

const drawMessage = (item, target = h("article.message", { "aria-label": "You" })) => {
  const text = textOf(item.content)
  const pictures = item.content.filter(({ type }) => type === "file")
  if (item.isEdited) {
    const input = h("textarea", {
      value: text,
      "aria-label": "Edit the message",
      rows: Math.min(10, text.split("\n").length + 1)
    })
    const cancel = () => {
      item.isEdited = false
      item.version++
      draw()
    }
    const form = h(
      "form.edit",
      { onsubmit: (event) => (event.preventDefault(), edit(item, input.value)) },
      input,
      h("menu", {}, h("button", { type: "button", onclick: cancel }, "Cancel"), h("button.strong", {}, "Send"))
    )
    input.addEventListener("keydown", (event) => {
      if (event.key === "Escape") {
        event.stopPropagation()
        cancel()
      } else if (isSent(event)) {
        event.preventDefault()
        form.requestSubmit()
      }
    })
    target.replaceChildren(form)
    requestAnimationFrame(() => input.focus())
    return target
  }
  const startEdit = () => {
    item.isEdited = true
    item.version++
    draw()
  }
  target.replaceChildren(
    ...(pictures.length > 0 ? [h("div.files", {}, ...pictures.map(drawFile))] : []),
    ...(text === "" ? [] : [h("p", { dir: "auto" }, text)]),
    h(
      "div.actions",
      {},
      iconButton("copy", "Copy", () => copy(text)),
      iconButton("pen", "Edit", startEdit),
      iconButton("again", "Ask again", () => askAgain(item))
    )
  )
  return target
}

const drawPending = (item, target = h("article.message.pending", { "aria-label": "You" })) => {
  const pictures = item.content.filter(({ type }) => type === "file")
  const text = textOf(item.content)
  target.replaceChildren(
    ...(pictures.length > 0 ? [h("div.files", {}, ...pictures.map(drawFile))] : []),
    ...(text === "" ? [] : [h("p", { dir: "auto" }, text)]),
    h("div.note", {}, item.note, ...item.actions)
  )
  return target
}

const states = {
  waits: "will run",
  asks: "waits for you",
  works: "runs",
  done: "done",
  denied: "denied",
  failed: "failed"
}

const json = (value) => (typeof value === "string" ? value : JSON.stringify(value, undefined, 2))

const resultText = (result) => {
  if (result === undefined) return undefined
  if (result._tag === "Failure") return result.message
  return result.value === undefined ? textOf(result.content ?? []) : json(result.value)
}

const words = (name) => name.replaceAll("_", " ")

/** A form that approves or denies requests: one, or with the digest of their batch all of them. */
const askForm = (label, requests, batch, all, ...content) => {
  const reason = h("input", { placeholder: "Reason (optional)", "aria-label": "Reason", maxLength: 500 })
  const settle = (approved) => {
    buttons.forEach((button) => (button.disabled = true))
    $("input").focus({ preventScroll: true })
    void decide(requests, approved, reason.value, batch).then((done) => {
      if (done === undefined) buttons.forEach((button) => (button.disabled = false))
    })
  }
  const buttons = [
    h("button", { type: "button", onclick: () => settle(false) }, `Deny${all}`),
    h("button.strong", { type: "submit" }, `Approve${all}`)
  ]
  const onsubmit = (event) => (event.preventDefault(), settle(true))
  return h("form.ask", { "aria-label": label, onsubmit }, ...content, h("div", {}, reason, ...buttons))
}

const drawAsk = (call) => {
  const { request } = call
  return askForm(
    `Decision about ${words(call.name)}`,
    [request],
    undefined,
    "",
    h("h3", {}, "May I ", h("em", {}, words(call.name)), "?"),
    // What the server shows of a request has no hidden characters in it
    h("pre", { tabIndex: 0 }, request.shown ?? json(call.args)),
    call.problem === undefined ? undefined : h("p.problem", {}, call.problem)
  )
}

/** One question about all requests that wait. The single ones follow it. */
const drawBatch = ({ digest, requests }, target = h("article.answer.batch", { "aria-label": "All decisions" })) => {
  const shown = requests.map(({ shown }) => shown).join("\n")
  const title = h("h3", {}, `May I do all ${requests.length} of these?`)
  const list = h("pre", { tabIndex: 0 }, shown)
  target.replaceChildren(askForm(`Decision about all ${requests.length}`, requests, digest, " all", title, list))
  return target
}

/** A question, or a call that no code of this page makes: a form for the answer. */
const drawQuestion = (call) => {
  const { request } = call
  const form = formOf(request.schema, h)
  const problem = h("p.problem", { role: "alert" })
  const settle = async (decision) => {
    const { callId, digest, path } = request
    buttons.forEach((button) => (button.disabled = true))
    try {
      await server.command("decide", open.id, { decisions: [{ callId, digest, path, ...decision }] })
      $("input").focus({ preventScroll: true })
    } catch (error) {
      buttons.forEach((button) => (button.disabled = false))
      const problems = error.error?.reason.error?.problems
      if (problems === undefined) return alarm(error)
      problem.textContent = form.say(problems).join(" ")
    }
  }
  const buttons = [
    h("button", { type: "button", onclick: () => settle({ approved: false }) }, "Skip"),
    h("button.strong", { type: "submit" }, "Answer")
  ]
  const onsubmit = (event) => {
    event.preventDefault()
    void settle({ approved: true, answer: form.read() })
  }
  const isQuestion = request._tag === "Question"
  const title = isQuestion ? request.arguments.question : words(call.name)
  return h(
    "form.ask.question",
    { "aria-label": `Question: ${title}`, noValidate: true, onsubmit },
    h("h3", {}, title),
    isQuestion ? undefined : h("pre", { tabIndex: 0 }, request.shown ?? json(call.args)),
    ...form.elements,
    call.problem === undefined ? problem : h("p.problem", { role: "alert" }, call.problem),
    h("div", {}, ...buttons)
  )
}

/** The tools of this page: the assistant calls them, and this code runs. */
const tools = {
  local_time: () => ({
    time: new Date().toLocaleTimeString(undefined, { hour: "2-digit", minute: "2-digit" }),
    zone: Intl.DateTimeFormat().resolvedOptions().timeZone
  })
}

const made = new Set()

/** Makes the calls of the assistant to this page. Another tab may have been faster, and its answer counts. */
const makeCalls = (chat) => {
  for (const { request } of chat.log.calls.values()) {
    if (request?._tag !== "Call" || tools[request.name] === undefined || made.has(request.digest)) continue
    const { arguments: args, callId, digest, name, path } = request
    made.add(digest)
    const decision = { callId, digest, path, approved: true, answer: tools[name](args) }
    void server.command("decide", chat.id, { decisions: [decision] }).catch((error) => {
      if (error.error?.reason.error?.problem !== "alreadyAnswered") alarm(error)
    })
  }
}

const drawCall = (call, isOpen) => {
  if (call.state === "asks" && call.request !== undefined)
    return "schema" in call.request ? drawQuestion(call) : drawAsk(call)
  const result = resultText(call.result)
  const why = call.decision?.reason
  const made = h(
    "details.call",
    { open: isOpen },
    h("summary", {}, h("span.dot"), h("span", {}, words(call.name)), h("span.state", {}, states[call.state])),
    h("h4", {}, "Arguments"),
    h("pre", { tabIndex: 0 }, json(call.args)),
    ...(why === undefined ? [] : [h("h4", {}, "Reason"), h("p", {}, why)]),
    ...(result === undefined ? [] : [h("h4", {}, "Result"), h("pre", { tabIndex: 0 }, result)])
  )
  made.dataset.state = call.state
  return made
}

/** Each part has an element that stays, so that an open fold stays open and selected text selected while more is written. */
const drawAnswer = (
  item,
  target = h("article.answer", { "aria-label": "Assistant" }, h("div.parts"), h("div.actions"))
) => {
  const [parts, actions] = target.children
  const shown = item.parts.filter((part) => part !== undefined)
  shown.forEach((part, index) => {
    const there = parts.children[index]
    let made = there
    if (part.type === "text" || part.type === "reasoning") {
      if (there?.kind !== part.type) made = h(part.type === "text" ? "div.text" : "div.text.reasoning", { dir: "auto" })
      drawMarkdown(made, part.text)
    } else if (part.type === "call") {
      const kind = `call ${part.state} ${part.problem}`
      if (there?.kind === kind) return
      made = drawCall(part, there?.tagName === "DETAILS" && there.open)
      made.kind = kind
    } else if (part.type === "file") {
      if (there?.kind === "file") return
      made = h("div.files", {}, drawFile(part))
    } else {
      const address = part.data?.type === "url" ? part.data.url : undefined
      const name = part.title ?? part.data?.fileName ?? address ?? "Source"
      made = h(
        "p.source",
        {},
        /^https?:/.test(address ?? "")
          ? h("a", { href: address, target: "_blank", rel: "noopener noreferrer" }, name)
          : name
      )
    }
    made.kind ??= part.type
    if (there === undefined) parts.append(made)
    else if (there !== made) there.replaceWith(made)
  })
  while (parts.children.length > shown.length) parts.lastElementChild.remove()
  target.classList.toggle("draft", item.isDraft === true)
  target.setAttribute("aria-busy", String(item.isDraft === true))
  const text = textOf(item.parts)
  const isWhole = !item.isDraft && text !== "" && !shown.some(({ type }) => type === "call")
  if (!isWhole) actions.replaceChildren()
  else if (actions.childElementCount === 0) {
    const asked = () => open.log.items.slice(0, open.log.items.indexOf(item)).findLast(({ kind }) => kind === "message")
    actions.append(
      iconButton("copy", "Copy", () => copy(textOf(item.parts))),
      iconButton("again", "Ask again", () => askAgain(asked())),
      ...(item.cursor === undefined ? [] : [iconButton("fork", "Continue from here in another chat", () => fork(item))])
    )
  }
  return target
}

const endings = {
  Interrupted: "Stopped.",
  MaxSteps: "Stopped: it took as many steps as it may.",
  InvalidOutput: "The answer did not have the form that it should have.",
  Stopped: "Stopped by the server."
}

const drawEnd = ({ outcome, reason }) => h("p.ended", {}, reason ?? endings[outcome] ?? outcome)

const drawFailure = (item) =>
  h(
    "div.failed",
    { role: "group", "aria-label": "The turn failed" },
    h("p", {}, item.message),
    h("button", { type: "button", onclick: () => command("resume", {}) }, icon("again"), "Ask again")
  )

const drawers = {
  message: drawMessage,
  answer: drawAnswer,
  batch: drawBatch,
  ended: drawEnd,
  failed: drawFailure
}

const news = {
  works: "The assistant works.",
  writes: "The assistant writes.",
  asks: "The assistant needs your decision."
}

let announced = "rests"

const lastText = () => textOf(open.log.items.findLast(({ kind }) => kind === "answer")?.parts ?? [])

const announce = (text) => {
  $("news").textContent = text
}

const tell = (status) => {
  if (status === announced) return
  if (status === "rests") announce(announced === "asks" ? "" : `The assistant is done. ${lastText().slice(0, 1000)}`)
  else if (!(announced === "writes" && status === "works")) announce(news[status])
  announced = status
}

const drawNow = () => {
  const { log, outbox } = open
  for (const item of [...log.items, ...log.waiting]) {
    if (outbox.delete(item.id)) keepOutbox(open)
  }
  const isBusy = log.status === "works" || log.status === "writes"
  const pending = [
    ...log.waiting.map((item) => ({
      ...item,
      version: 0,
      note: isBusy ? "Is read next" : "Waits",
      actions: [
        h("button.plain", { type: "button", onclick: () => command("withdraw", { messageId: item.id }) }, "Withdraw")
      ]
    })),
    ...[...outbox.values()].map((message) => ({
      id: message.messageId,
      content: message.input,
      version: message.problem === undefined ? 0 : 1,
      note: message.problem ?? "Is sent…",
      actions:
        message.problem === undefined
          ? []
          : [
              h("button.plain", { type: "button", onclick: () => (deliver(open, message), draw()) }, "Send again"),
              h("button.plain", { type: "button", onclick: () => discard(open, message.messageId) }, "Discard")
            ]
    }))
  ]
  sync(
    $("log"),
    log.items,
    ({ id, kind }) => `${kind} ${id}`,
    (item, target) => drawers[item.kind](item, target)
  )
  sync($("pending"), pending, ({ id, note }) => `${id} ${note}`, drawPending)

  const isEmpty = log.items.length === 0 && pending.length === 0
  $("welcome").hidden = !(isEmpty && open.id === undefined)
  const current = list.find(({ id }) => id === open.id)
  const title = current?.title || (open.id === undefined ? "New chat" : "Chat")
  if ($("title").textContent !== title) $("title").textContent = title
  document.title = open.id === undefined ? "Chat" : title
  document.body.dataset.status = log.status
  $("log").setAttribute("aria-busy", String(isBusy))
  $("stop").hidden = !isBusy
  $("input").placeholder = isBusy ? "Write a message meanwhile" : "Write a message"
  drawBanner()
  tell(log.status)
  if (isAtEnd) scrollToEnd()
}

const drawBanner = () => {
  const text =
    open.problem ??
    (!navigator.onLine
      ? "You are offline. What you send is kept, and sent when you are back."
      : open.isLost
        ? "The connection is lost. I try again…"
        : undefined)
  $("banner").hidden = text === undefined
  if (text !== undefined && $("banner").textContent !== text) $("banner").textContent = text
}

// The end of the conversation stays in sight while a person is there

let isAtEnd = true

const scroller = $("scroll")

const scrollToEnd = () => {
  scroller.scrollTop = scroller.scrollHeight
}

const measure = () => {
  isAtEnd = scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight < 60
  $("newest").hidden = isAtEnd
}

scroller.addEventListener("scroll", measure, { passive: true })
new ResizeObserver(() => isAtEnd && scrollToEnd()).observe(scroller)
on("newest", "click", () => {
  isAtEnd = true
  scroller.scrollTo({ top: scroller.scrollHeight, behavior: "smooth" })
})

// The list of chats

let list = []
let next

const order = () => list.sort((a, b) => (a.updated < b.updated ? 1 : -1))

const ages = [
  [60, "second"],
  [3600, "minute"],
  [86_400, "hour"],
  [604_800, "day"],
  [Infinity, "week"]
]
const sizes = { second: 1, minute: 60, hour: 3600, day: 86_400, week: 604_800 }

const ageOf = (at) => {
  const seconds = Math.max(0, (Date.now() - Date.parse(at)) / 1000)
  const [, unit] = ages.find(([limit]) => seconds < limit)
  if (unit === "second") return "now"
  return new Intl.RelativeTimeFormat("en", { style: "narrow" }).format(-Math.floor(seconds / sizes[unit]), unit)
}

const marksOf = { running: "works", waiting: "needs you" }

const drawChats = () => {
  const chats = order().map((one) => ({
    ...one,
    version: `${one.title} ${one.status} ${one.id === open.id} ${ageOf(one.updated)}`
  }))
  sync($("chats"), chats, ({ id }) => id, drawChat)
  $("older").hidden = next === undefined
}

const drawChat = ({ id, status, title, updated }, target = h("li")) => {
  const name = title || "Chat"
  const state = marksOf[status]
  const link = h(
    "a",
    { href: `#${id}`, "aria-current": id === open.id ? "page" : undefined },
    h("span.name", { dir: "auto" }, name),
    h("span.age", {}, state ?? ageOf(updated))
  )
  link.dataset.status = status
  target.replaceChildren(
    link,
    iconButton("pen", `Rename ${name}`, () => rename(id, name)),
    iconButton("bin", `Remove ${name}`, () => remove(id, name))
  )
  return target
}

const asked = (dialog) =>
  new Promise((resolve) => {
    dialog.returnValue = ""
    dialog.showModal()
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), { once: true })
  })

// Enter is for the button that submits
for (const cancel of document.querySelectorAll("[data-cancel]")) {
  cancel.addEventListener("click", () => cancel.closest("dialog").close())
}

const rename = async (id, name) => {
  $("name").value = name
  if (await asked($("rename"))) await command("update", { title: $("name").value.trim() }, id)
}

const remove = async (id, name) => {
  $("removed").textContent = name
  if (await asked($("remove"))) await command("remove", {}, id)
}

const gone = (id) => {
  list = list.filter((one) => one.id !== id)
  if (id === open.id) location.hash = ""
}

let listing

const followList = async () => {
  listing = new AbortController()
  const { name } = await visitor
  try {
    for await (const change of server.listChanges({ prefix: `${name}/` }, { signal: listing.signal })) {
      if (change._tag === "Page") {
        list = change.page.sessions
        next = change.page.next ?? undefined
      } else if (change._tag === "Removed") gone(change.id)
      else list = [change.session, ...list.filter(({ id }) => id !== change.session.id)]
      drawChats()
      draw()
    }
  } catch (error) {
    alarm(error)
  }
}

on("older", "click", async () => {
  const { name } = await visitor
  const page = await server.query("list", { prefix: `${name}/`, after: next }).catch(alarm)
  if (page === undefined) return
  const there = new Set(list.map(({ id }) => id))
  list.push(...page.sessions.filter(({ id }) => !there.has(id)))
  next = page.next ?? undefined
  drawChats()
})

// What a person does

const files = []

const readData = (blob) =>
  new Promise((resolve, reject) => {
    const reader = new FileReader()
    reader.addEventListener("load", () => {
      resolve({ type: "base64", base64: reader.result.slice(reader.result.indexOf(",") + 1) })
    })
    reader.addEventListener("error", () => reject(reader.error))
    reader.readAsDataURL(blob)
  })

/** A large picture is made smaller: models see no more of it, and it is sent and stored faster. */
const shrink = async (file) => {
  if (file.size < 1_000_000 || file.type === "image/gif") return file
  const picture = await createImageBitmap(file)
  const scale = Math.min(1, 2000 / Math.max(picture.width, picture.height))
  const canvas = new OffscreenCanvas(Math.round(picture.width * scale), Math.round(picture.height * scale))
  canvas.getContext("2d").drawImage(picture, 0, 0, canvas.width, canvas.height)
  return canvas.convertToBlob({ type: "image/jpeg", quality: 0.85 })
}

const attach = async (chosen) => {
  for (const file of chosen) {
    if (!/^image\/(png|jpeg|gif|webp)$/.test(file.type)) continue
    const blob = await shrink(file)
    files.push({ type: "file", mediaType: blob.type, fileName: file.name, data: await readData(blob) })
  }
  drawFiles()
}

const drawFiles = () => {
  $("files").hidden = files.length === 0
  $("files").replaceChildren(
    ...files.map((file) =>
      h(
        "li",
        {},
        h("img", { src: `data:${file.mediaType};base64,${file.data.base64}`, alt: file.fileName }),
        iconButton("close", `Leave ${file.fileName} out`, () => {
          files.splice(files.indexOf(file), 1)
          drawFiles()
        })
      )
    )
  )
}

const grow = () => {
  const input = $("input")
  input.style.height = "auto"
  input.style.height = `${Math.min(input.scrollHeight, innerHeight * 0.4)}px`
}

on("composer", "submit", (event) => {
  event.preventDefault()
  const text = $("input").value
  const attached = files.splice(0)
  $("input").value = ""
  sessionStorage.removeItem(`draft ${open.id}`)
  drawFiles()
  grow()
  void say(text, attached)
})

on("input", "keydown", (event) => {
  if (!isSent(event)) return
  event.preventDefault()
  $("composer").requestSubmit()
})
on("input", "input", () => {
  grow()
  sessionStorage.setItem(`draft ${open.id}`, $("input").value)
})
on("input", "paste", (event) => void attach(event.clipboardData.files))
on("attach", "change", () => {
  void attach([...$("attach").files])
  $("attach").value = ""
  $("input").focus()
})
document.addEventListener("dragover", (event) => event.preventDefault())
document.addEventListener("drop", (event) => {
  event.preventDefault()
  void attach(event.dataTransfer.files)
})

const stop = () => void command("interrupt", {})

on("stop", "click", () => {
  stop()
  $("input").focus()
})

const ideas = ["What can you do?", "Where is parcel 7?", "Refund order 42", "Research tea", "Tell me a story"]
$("ideas").append(
  ...ideas.map((text) =>
    h("button", { type: "button", onclick: () => void say(text === ideas[0] ? "Hello! What can you do?" : text) }, text)
  )
)

const showSide = (isShown) => {
  document.body.classList.toggle("side", isShown)
  $("show").setAttribute("aria-expanded", String(isShown))
  if (isShown) $("new").focus()
}
on("show", "click", () => showSide(true))
on("hide", "click", () => {
  showSide(false)
  $("show").focus()
})
document.querySelector("main").addEventListener("pointerdown", (event) => {
  if (!document.body.classList.contains("side")) return
  event.preventDefault()
  showSide(false)
})

document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape" || document.querySelector("dialog[open]") !== null) return
  if (document.body.classList.contains("side")) $("hide").click()
  else if (!$("stop").hidden) stop()
})

const themes = { "": "as the device", light: "light", dark: "dark" }
const showTheme = (theme) => {
  if (theme === "") delete document.documentElement.dataset.theme
  else document.documentElement.dataset.theme = theme
  $("theme").setAttribute("aria-label", `Colours: ${themes[theme]}`)
  $("theme").title = `Colours: ${themes[theme]}`
}
let theme = store.get("theme") ?? ""
showTheme(theme)
on("theme", "click", () => {
  const names = Object.keys(themes)
  theme = names[(names.indexOf(theme) + 1) % names.length]
  store.set("theme", theme)
  showTheme(theme)
})

const chatOfAddress = () => decodeURIComponent(location.hash.slice(1)) || undefined

// The address names the chat, so this link does not change it
on("skip", "click", (event) => {
  event.preventDefault()
  $("input").focus()
})

const move = () => {
  showSide(false)
  if (chatOfAddress() !== open.id) openChat(chatOfAddress())
  drawChats()
  $("input").focus({ preventScroll: true })
}
addEventListener("hashchange", move)
addEventListener("online", draw)
addEventListener("offline", draw)

// A browser has six connections to a server, for all tabs: those that nobody looks at give theirs back, and continue later
let leaving
document.addEventListener("visibilitychange", () => {
  clearTimeout(leaving)
  if (document.visibilityState === "hidden") {
    leaving = setTimeout(() => {
      open.reading?.abort()
      listing?.abort()
    }, 5000)
    return
  }
  if (open.reading?.signal.aborted) void follow(open)
  if (listing?.signal.aborted) void followList()
})

openChat(chatOfAddress())
void followList()
setInterval(drawChats, 30_000)
