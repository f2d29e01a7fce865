/**
 * Markdown as elements of a page. Texts of models are hostile: they become text nodes and elements of this list, never HTML. Links lead
 * to the web or to mail, and pictures are links, because a picture that is loaded tells its server what was read.
 */

/** The deepest nesting of lists, quotes and emphasis; what is deeper stays as it is written. */
const deepest = 8

const element = (name, ...children) => {
  const made = document.createElement(name)
  made.append(...children)
  return made
}

const hrefOf = (text) => {
  try {
    const url = new URL(text)
    return ["https:", "http:", "mailto:"].includes(url.protocol) ? url.href : undefined
  } catch {
    return undefined
  }
}

const link = (address, ...children) => {
  const href = hrefOf(address)
  if (href === undefined) return element("span", ...children)
  const made = element("a", ...children)
  Object.assign(made, { href, target: "_blank", rel: "noopener noreferrer nofollow", title: href })
  return made
}

const marks = { "**": "strong", __: "strong", "*": "em", _: "em", "~~": "s" }

const special = /\\[!-/:-@[-`{-~]|`+|\*\*|__|~~|[*_]|!?\[|https?:\/\/[^\s<>"'`]+|\n/g

const isWord = (character) => /[\p{L}\p{N}]/u.test(character ?? "")

/** The nodes of a line. Each delimiter that has no end is remembered, so the work grows with the text alone. */
const inline = (text, depth = 0) => {
  if (depth > deepest) return [text]
  const nodes = []
  const endless = new Set()
  let plain = 0
  const until = (end, next, node) => {
    if (end > plain) nodes.push(text.slice(plain, end))
    if (node !== undefined) nodes.push(node)
    plain = next
    special.lastIndex = next
  }
  special.lastIndex = 0
  for (let found = special.exec(text); found !== null; found = special.exec(text)) {
    const [token] = found
    const at = found.index
    const next = at + token.length
    const inner = (from, to) => inline(text.slice(from, to), depth + 1)
    if (token === "\n") until(at, next, element("br"))
    else if (token[0] === "\\") until(at, next, token[1])
    else if (token[0] === "`") {
      if (endless.has(token)) continue
      let end = text.indexOf(token, next)
      while (end >= 0 && text[end + token.length] === "`") {
        while (text[end] === "`") end++
        end = text.indexOf(token, end)
      }
      if (end < 0) endless.add(token)
      else until(at, end + token.length, element("code", text.slice(next, end).replace(/^ (.+) $/s, "$1")))
    } else if (token.startsWith("http")) {
      const address = token.replace(/[.,:;!?)\]]+$/, "")
      until(at, at + address.length, link(address, address))
    } else if (token.endsWith("[")) {
      const close = endless.has("](") ? -1 : text.indexOf("](", next)
      const end = close < 0 ? -1 : text.indexOf(")", close)
      if (end < 0) endless.add("](")
      else if (!text.slice(next, close).includes("\n\n")) {
        const address = text
          .slice(close + 2, end)
          .trim()
          .split(/\s/)[0]
        const label = text.slice(next, close)
        until(at, end + 1, token === "![" ? link(address, label || address) : link(address, ...inner(next, close)))
      }
    } else {
      const isInWord = token[0] === "_" && isWord(text[at - 1])
      if (endless.has(token) || isInWord || /\s/.test(text[next] ?? " ")) continue
      let end = text.indexOf(token, next + 1)
      const isEnd = () =>
        !/\s/.test(text[end - 1]) &&
        !(token.length === 1 && (text[end + 1] === token || text[end - 1] === token)) &&
        !(token[0] === "_" && isWord(text[end + token.length]))
      while (end >= 0 && !isEnd()) end = text.indexOf(token, end + token.length)
      if (end < 0) endless.add(token)
      else until(at, end + token.length, element(marks[token], ...inner(next, end)))
    }
  }
  special.lastIndex = 0
  if (plain < text.length) nodes.push(text.slice(plain))
  return nodes
}

const isFence = /^ {0,3}(`{3,}|~{3,})\s*([\w+#.-]*)/
const isItem = /^( *)([-*+]|\d{1,9}[.)])(?: +|$)(.*)/
/** A marker alone begins no list: it may be the beginning of something else that is being written. */
const isFirstItem = /^( *)([-*+]|\d{1,9}[.)]) +\S/
const isRule = /^ {0,3}(?:(?:-\s*){3,}|(?:\*\s*){3,}|(?:_\s*){3,})$/
const isHeading = /^ {0,3}(#{1,6}) +(?=\S)/

const cellsOf = (line) =>
  line
    .trim()
    .replace(/^\||\|$/g, "")
    .split("|")
    .map((cell) => cell.trim())

const isTableRule = (line) => line.includes("-") && cellsOf(line).every((cell) => /^:?-+:?$/.test(cell))

const begins = (line) =>
  isFence.test(line) || isHeading.test(line) || isRule.test(line) || line.startsWith(">") || isFirstItem.test(line)

/** The blocks of a text: each has its lines, and what it is. */
const blocksOf = (text) => {
  const lines = text.replace(/\r\n?/g, "\n").split("\n")
  const blocks = []
  let at = 0
  const take = (kind, from, to) => {
    blocks.push({ kind, lines: lines.slice(from, to) })
    at = to
  }
  while (at < lines.length) {
    const line = lines[at]
    const fence = isFence.exec(line)
    const item = isFirstItem.exec(line)
    let end = at + 1
    if (line.trim() === "") at++
    else if (fence !== null) {
      while (end < lines.length && !lines[end].trim().startsWith(fence[1])) end++
      take("code", at, Math.min(end + 1, lines.length))
    } else if (isHeading.test(line)) take("heading", at, end)
    else if (isRule.test(line)) take("rule", at, end)
    else if (line.startsWith(">")) {
      while (end < lines.length && lines[end].trim() !== "") end++
      take("quote", at, end)
    } else if (item !== null) {
      const indent = item[1].length
      const isOrdered = /\d/.test(item[2])
      for (; end < lines.length; end++) {
        const next = isItem.exec(lines[end])
        if (next !== null && next[1].length <= indent && /\d/.test(next[2]) !== isOrdered) break
        if (next !== null || /^ {2,}\S/.test(lines[end])) continue
        if (lines[end].trim() !== "" && (lines[end - 1].trim() === "" || begins(lines[end]))) break
      }
      while (lines[end - 1].trim() === "") end--
      take("list", at, end)
    } else if (line.includes("|") && isTableRule(lines[at + 1] ?? "")) {
      while (end < lines.length && lines[end].includes("|")) end++
      take("table", at, end)
    } else {
      while (end < lines.length && lines[end].trim() !== "" && !begins(lines[end])) end++
      take("text", at, end)
    }
  }
  return blocks
}

const listOf = (lines, depth) => {
  const [, indent, marker] = isItem.exec(lines[0])
  const list = element(/\d/.test(marker) ? "ol" : "ul")
  if (/\d/.test(marker)) list.start = Number.parseInt(marker, 10)
  const items = []
  for (const line of lines) {
    const found = isItem.exec(line)
    if (found !== null && found[1].length <= indent.length) items.push([found[3]])
    else items.at(-1).push(line.replace(new RegExp(`^ {0,${indent.length + marker.length + 1}}`), ""))
  }
  for (const item of items) {
    const blocks = blocksOf(item.join("\n"))
    const isPlain = blocks.length > 0 && blocks[0].kind === "text"
    const first = isPlain ? inline(blocks[0].lines.join("\n")) : []
    list.append(
      element("li", ...first, ...(isPlain ? blocks.slice(1) : blocks).map((block) => drawn(block, depth + 1)))
    )
  }
  return list
}

const codeOf = (lines) => {
  const [, fence, language] = isFence.exec(lines[0])
  const isClosed = lines.length > 1 && lines.at(-1).trim().startsWith(fence)
  const text = lines.slice(1, isClosed ? -1 : undefined).join("\n")
  const copy = element("button", "Copy")
  copy.type = "button"
  copy.addEventListener("click", () => {
    void navigator.clipboard.writeText(text)
    copy.textContent = "Copied"
    setTimeout(() => (copy.textContent = "Copy"), 1500)
  })
  const code = element("pre", element("code", text))
  code.tabIndex = 0
  const made = element("figure", element("figcaption", element("span", language), copy), code)
  made.className = "code"
  return made
}

const tableOf = ([head, rule, ...rows]) => {
  const sides = cellsOf(rule).map((cell) => (cell.endsWith(":") ? (cell.startsWith(":") ? "center" : "end") : "start"))
  const row = (line, name) => {
    const made = element("tr")
    const cells = cellsOf(line)
    sides.forEach((side, index) => {
      const cell = element(name, ...inline(cells[index] ?? ""))
      cell.style.textAlign = side
      made.append(cell)
    })
    return made
  }
  const table = element(
    "table",
    element("thead", row(head, "th")),
    element("tbody", ...rows.map((line) => row(line, "td")))
  )
  const made = element("div", table)
  made.className = "table"
  made.tabIndex = 0
  return made
}

const drawn = ({ kind, lines }, depth = 0) => {
  const text = lines.join("\n")
  if (depth > deepest) return element("p", text)
  switch (kind) {
    case "code":
      return codeOf(lines)
    case "heading": {
      const [mark, level] = isHeading.exec(text)
      // The page has headings of its own above these
      return element(
        `h${Math.min(6, level.length + 2)}`,
        ...inline(
          text
            .slice(mark.length)
            .trim()
            .replace(/(?<! ) #+$/, "")
        )
      )
    }
    case "rule":
      return element("hr")
    case "quote": {
      const inner = lines.map((line) => line.replace(/^ {0,3}> ?/, "")).join("\n")
      return element("blockquote", ...blocksOf(inner).map((block) => drawn(block, depth + 1)))
    }
    case "list":
      return listOf(lines, depth)
    case "table":
      return tableOf(lines)
    default:
      return element("p", ...inline(text.trim()))
  }
}

/** Draws the text into an element. A block that is the same as before stays, so what a reader selects in it stays, too. */
export const drawMarkdown = (target, text) => {
  const blocks = blocksOf(text)
  blocks.forEach((block, index) => {
    const source = `${block.kind}\n${block.lines.join("\n")}`
    const there = target.children[index]
    if (there?.source === source) return
    const made = drawn(block)
    made.source = source
    if (there === undefined) target.append(made)
    else there.replaceWith(made)
  })
  while (target.children.length > blocks.length) target.lastElementChild.remove()
}
