/**
 * The house rules of `src`, as an oxlint plugin.
 *
 * Each rule looks at one file; the room a file belongs to is read from its path (`src/<room>/...`).
 */

import { shared } from "./shared.ts"
import { inComment, inMessage, inText, isProse, namesTest, type Finding } from "./english.ts"

interface Node {
  readonly type: string
  readonly range: readonly [number, number]
  readonly loc: { readonly start: { readonly line: number }; readonly end: { readonly line: number } }
  readonly parent: Node | null
  // oxlint hands over plain ESTree nodes; each rule reads the fields of the node types it asked for
  readonly [field: string]: any // oxlint-disable-line typescript/no-explicit-any
}

interface Comment {
  readonly type: "Line" | "Block" | "Shebang"
  readonly value: string
  readonly range: Node["range"]
  readonly loc: Node["loc"]
}

interface RuleContext {
  readonly filename: string
  readonly sourceCode: {
    readonly text: string
    getAllComments(): ReadonlyArray<Comment>
    getCommentsBefore(node: Node): ReadonlyArray<Comment>
    getLocFromIndex(offset: number): Node["loc"]["start"]
  }
  report(
    problem: { readonly message: string } & (
      | { readonly node: Node }
      | { readonly loc: { readonly start: Node["loc"]["start"]; readonly end: Node["loc"]["end"] } }
    )
  ): void
}

type Rule = (context: RuleContext) => Record<string, (node: Node) => void>

/** The rooms that each room may import, `internal/` included. `index` is the root barrel of the package. */
const arrows: Record<string, ReadonlyArray<string>> = {
  payload: [],
  store: ["payload"],
  tool: ["payload"],
  conversation: ["payload", "tool"],
  run: ["payload", "tool", "conversation"],
  agent: ["payload", "tool", "conversation", "run"],
  "ai-sdk": ["payload", "agent"],
  plan: ["payload", "store", "tool", "conversation", "run", "agent"],
  interop: ["payload", "tool", "conversation"],
  mcp: ["payload", "tool", "conversation", "run", "agent"],
  session: ["payload", "store", "tool", "conversation", "run", "agent", "plan"],
  http: ["payload", "tool", "conversation", "run", "agent", "session"],
  workflow: ["payload", "tool", "conversation", "run", "agent", "plan"],
  node: ["payload", "store"],
  re2: ["payload"],
  index: ["payload", "store", "tool", "conversation", "agent", "session"]
}

const rooms = Object.keys(arrows).filter((room) => room !== "index")
arrows["testing"] = rooms

const inSrc = (filename: string): { readonly room: string; readonly path: ReadonlyArray<string> } | undefined => {
  const path = filename.replaceAll("\\", "/").split("/src/").at(-1)?.split("/")
  if (path === undefined || path[0] === undefined || !filename.includes("src")) return undefined
  return { room: path.length === 1 ? "index" : path[0], path }
}

/** Frozen wires are private, too: users read and write them through the codec of their module. */
const isPrivate = (path: ReadonlyArray<string>): boolean => path.some((part) => part === "internal" || part === "wire")

const resolve = (from: ReadonlyArray<string>, specifier: string): ReadonlyArray<string> => {
  const path = from.slice(0, -1)
  for (const step of specifier.split("/")) {
    if (step === "..") path.pop()
    else if (step !== ".") path.push(step)
  }
  return path
}

/** Calls `check` with each module a file names: imports, re-exports, `import()`, type imports. */
const onImport =
  (check: (context: RuleContext, specifier: string, node: Node) => void): Rule =>
  (context) => {
    const visit = (node: Node) => {
      if (typeof node["source"]?.value === "string") check(context, node["source"].value, node["source"])
    }
    return {
      ImportDeclaration: visit,
      ExportNamedDeclaration: visit,
      ExportAllDeclaration: visit,
      ImportExpression: visit,
      TSImportType: visit
    }
  }

const roomArrows = onImport((context, specifier, node) => {
  const here = inSrc(context.filename)
  if (here === undefined) return
  if (/^effect-emissary(\/|$)|^#src\//.test(specifier)) {
    context.report({ node, message: "Inside src import the file by its relative path." })
  }
  if (!specifier.startsWith(".")) return
  const there = resolve(here.path, specifier)
  if (here.path.at(-1) === "index.ts" && isPrivate(there)) {
    context.report({
      node,
      message: "A barrel is public: nothing under internal/ or wire/ is exported from the package."
    })
    return
  }
  const room = there.length === 1 ? "index" : (there[0] ?? "index")
  if (room === here.room) return
  const allowed = arrows[here.room]
  if (allowed === undefined) {
    context.report({
      node,
      message: `Room "${here.room}" is unknown: add it to the arrows in scripts/lint/house.ts.`
    })
  } else if (!allowed.includes(room)) {
    const list = allowed.length === 0 ? "no other room" : allowed.join(", ")
    context.report({
      node,
      message: `Room "${here.room}" may import ${list}, not "${room}" (DESIGN: arrows go one way).`
    })
  } else if (here.room !== "index" && there.at(-1) === "index.ts") {
    context.report({ node, message: "Import the module, not the barrel of the room." })
  }
})

/** A module under `internal/` or `wire/` is of its room alone, unless the list "Files" has it for the room that imports it. */
const walls = onImport((context, specifier, node) => {
  const here = inSrc(context.filename)
  if (here === undefined || here.room === "index" || !specifier.startsWith(".")) return
  const there = resolve(here.path, specifier)
  const [room = ""] = there
  if (room === here.room || !isPrivate(there) || arrows[here.room]?.includes(room) !== true) return
  const module = there.join("/").replace(/\.ts$/, "")
  const importers = shared.get(module)
  if (importers === "all" || importers?.includes(here.room) === true) return
  context.report({
    node,
    message: `"${module}" is not shared with the room "${here.room}": import a public module, or add the room to its line in "Files" of CONTRIBUTING.md.`
  })
})

const portable = onImport((context, specifier, node) => {
  if (inSrc(context.filename)?.room === "node") return
  if (specifier.startsWith("node:") || specifier.startsWith("@effect/platform-")) {
    context.report({
      node,
      message: "The library runs wherever Effect runs: use Effect's own services (only src/node is tied to Node)."
    })
  }
})

/** `effect/Effect` is a module; `effect`, `effect/ai` and `effect/testing` are barrels. */
const deepImports = onImport((context, specifier, node) => {
  if (/^effect(\/[^A-Z]*)?$/.test(specifier)) {
    context.report({
      node,
      message: `"${specifier}" is a barrel and doubles the start-up time: import the module, as in "effect/Effect".`
    })
  }
})

const clockMessage = "Time is injected (L9): use effect/Clock, effect/DateTime or Effect.sleep."
const randomMessage = "Chance is injected (L9): use effect/Random or the id service of the room."

const members: Record<string, string> = {
  "Date.now": clockMessage,
  "performance.now": clockMessage,
  "Math.random": randomMessage,
  "crypto.randomUUID": randomMessage,
  "crypto.getRandomValues": randomMessage
}

const calls: Record<string, string> = {
  setTimeout: clockMessage,
  setInterval: clockMessage,
  setImmediate: clockMessage,
  queueMicrotask: "Use Effect.yieldNow."
}

const memberName = (node: Node): string | undefined => {
  const object = node["object"]
  const owner = object?.type === "MemberExpression" ? object.property : object
  return owner?.type === "Identifier" && node["property"]?.type === "Identifier"
    ? `${owner.name}.${node["property"].name}`
    : undefined
}

/** No second way to do what Effect does: exceptions, promises, the machine's clock and dice. */
const effectOnly: Rule = (context) => {
  const no = (message: string) => (node: Node) => context.report({ node, message })
  const fn = (node: Node) => {
    if (node["async"] === true) context.report({ node, message: "No async functions: return an Effect." })
  }
  return {
    TryStatement: no("No try/catch: use Effect.try, Result.try or a total function."),
    ThrowStatement: no("No throw: fail with a tagged error, or Effect.die for a bug."),
    AwaitExpression: no("No await: yield an Effect."),
    FunctionDeclaration: fn,
    FunctionExpression: fn,
    ArrowFunctionExpression: fn,
    ForOfStatement: (node) => {
      if (node["await"] === true) context.report({ node, message: "No for await: use effect/Stream." })
    },
    NewExpression: (node) => {
      const name = node["callee"]?.name
      if (name === "Promise") context.report({ node, message: "No promises: use Effect.callback or Deferred." })
      if (name === "Date" && node["arguments"].length === 0) context.report({ node, message: clockMessage })
    },
    CallExpression: (node) => {
      const called = node["callee"]?.type === "Identifier" ? node["callee"].name : ""
      const message = Object.hasOwn(calls, called) ? calls[called] : undefined
      if (message !== undefined) context.report({ node, message })
    },
    MemberExpression: (node) => {
      const name = memberName(node)
      if (name === undefined) return
      const message = name.startsWith("Promise.")
        ? "No promises: combine Effects."
        : Object.hasOwn(members, name)
          ? members[name]
          : undefined
      if (message !== undefined) context.report({ node, message })
    }
  }
}

const enclosing = /Statement$|Declaration$|^VariableDeclarator$|^PropertyDefinition$|^Property$|^ReturnStatement$/

/** `as` is allowed inside, each one with a line that states why it is sound; never to or through `any`/`unknown`. */
const soundCasts: Rule = (context) => {
  const inPrivate = isPrivate(inSrc(context.filename)?.path ?? [])
  const visit = (node: Node) => {
    const target = node["typeAnnotation"]
    if (target?.type === "TSTypeReference" && target.typeName?.name === "const") return
    if (target?.type === "TSAnyKeyword") {
      context.report({ node, message: "No `as any`: name the type, or narrow with Predicate or Schema." })
      return
    }
    const inner = node["expression"]
    if (inner?.type === "TSAsExpression" && inner.typeAnnotation?.type === "TSUnknownKeyword") {
      context.report({
        node,
        message: "No `as unknown as`: it silences every check. Use a Schema, a guard or a better type."
      })
      return
    }
    let statement: Node = node
    while (statement.parent !== null && !enclosing.test(statement.type)) statement = statement.parent
    const from = statement.loc.start.line - 1
    const to = node.loc.end.line
    const explained = context.sourceCode.getAllComments().some((comment) => {
      // the doc comment of a public export is for users and does not count for a cast
      const isDoc = !inPrivate && comment.type === "Block" && comment.value.startsWith("*")
      return !isDoc && comment.loc.end.line >= from && comment.loc.start.line <= to
    })
    if (!explained) {
      context.report({ node, message: "Say in a comment on or above this line why the cast is sound." })
    }
  }
  return { TSAsExpression: visit, TSTypeAssertion: visit }
}

/** Every public export carries a doc comment with `@category` and `@since`, or `@internal`. */
const docTags: Rule = (context) => {
  const here = inSrc(context.filename)
  if (here === undefined || isPrivate(here.path) || here.path.at(-1) === "index.ts") return {}
  const seen = new Set<string>()
  return {
    ExportNamedDeclaration: (node) => {
      const declaration = node["declaration"]
      if (declaration === null || declaration === undefined) return
      const name = declaration.id?.name ?? declaration.declarations?.[0]?.id?.name ?? ""
      if (seen.has(name)) return
      seen.add(name)
      const doc = context.sourceCode.getCommentsBefore(node).findLast((comment) => comment.value.startsWith("*"))?.value
      if (doc?.includes("@internal") === true) return
      const missing = ["@category", "@since"].filter((tag) => doc?.includes(tag) !== true)
      if (missing.length > 0) {
        context.report({
          node: declaration.id ?? node,
          message: `The doc comment of "${name}" lacks ${missing.join(" and ")}.`
        })
      }
    }
  }
}

/** Comments and messages of `src`, comments of examples, and names of tests, in plain English: see `english.ts`. */
const plainEnglish: Rule = (context) => {
  const { getAllComments, getLocFromIndex, text } = context.sourceCode
  const inside = inSrc(context.filename) !== undefined
  const report = (start: number, findings: ReadonlyArray<Finding>) => {
    for (const { hint, offset, word } of findings) {
      const at = getLocFromIndex(start + offset)
      context.report({ loc: { start: at, end: at }, message: `Plain English (DESIGN 8.5) avoids "${word}": ${hint}.` })
    }
  }
  const string = (node: Node) => {
    const value = node.type === "TemplateElement" ? node["value"].raw : node["value"]
    if (typeof value === "string" && isProse(value))
      report(node.range[0] + 1, inside ? inMessage(value) : inText(value))
  }
  const comments = () => {
    for (const comment of getAllComments()) report(comment.range[0] + 2, inComment(comment.value))
  }
  if (inside) return { Program: comments, Literal: string, TemplateElement: string }
  if (!context.filename.endsWith(".test.ts")) return { Program: comments }
  return {
    CallExpression: (node) => {
      const name = node["arguments"][0]
      if (name === undefined || !namesTest(text.slice(...node["callee"].range))) return
      if (name.type === "Literal") string(name)
      if (name.type === "TemplateLiteral") for (const part of name.quasis) string(part)
    }
  }
}

const rule = (create: Rule) => ({ meta: { type: "problem" }, create })

export default {
  meta: { name: "house" },
  rules: {
    "deep-imports": rule(deepImports),
    "doc-tags": rule(docTags),
    "effect-only": rule(effectOnly),
    "plain-english": rule(plainEnglish),
    portable: rule(portable),
    "room-arrows": rule(roomArrows),
    "sound-casts": rule(soundCasts),
    walls: rule(walls)
  }
}
