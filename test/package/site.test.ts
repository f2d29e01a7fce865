import { assert, describe, it } from "@effect/vitest"
import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { Run } from "effect-emissary"
import { encode } from "gpt-tokenizer"
import { glob } from "../../scripts/sources.ts"
import { relink } from "../../scripts/site.ts"
import { pages } from "../../site/pages.ts"
import { root } from "./run.ts"

const text = (path: string) => readFileSync(join(root, path), "utf8")
const files = ["README.md", ...readdirSync(join(root, "docs")).map((name) => `docs/${name}`)]

/** The links of a page that lead out of the repository. Addresses in code are no links. */
const outward = (page: string) =>
  text(page)
    .replace(/^ *```[^]*?^ *```/gm, "")
    .replace(/`[^`]*`/g, "")
    .match(/https?:\/\/(?!127\.|localhost)[^)\s>"]+/g) ?? []

describe("DOCS-2 the site", () => {
  it("DOCS-2 has at most 25 pages with the README as its first, and each page of docs once in its menu", () => {
    assert.deepStrictEqual(pages.map(({ name }) => `docs/${name}.md`).toSorted(), files.slice(1).toSorted())
    assert.isAtMost(files.length, 25)
  })

  it("DOCS-1 the README has at most 150 lines", () => {
    assert.isAtMost(text("README.md").trimEnd().split("\n").length, 150)
  })

  it("DOCS-2 the pages have at least 12 blocks of code for 100 sentences", () => {
    const count = (find: (page: string) => RegExpMatchArray | null) =>
      files.reduce((sum, file) => sum + (find(text(file))?.length ?? 0), 0)
    const blocks = count((page) => page.match(/^ *```\w/gm))
    const sentences = count((page) =>
      page.replace(/^ *```[^]*?^ *```|<!--[^]*?-->|^[|#].*$|`[^`\n]*`/gm, "").match(/[.:?!](?=\s|$)/g)
    )
    assert.isAtLeast((100 * blocks) / sentences, 12)
  })

  it("DOCS-2 links outwards are in one list, with the date when they were read", () => {
    const links: Readonly<Record<string, string>> = JSON.parse(text("site/links.json"))
    assert.deepStrictEqual(Object.keys(links), [...new Set(files.flatMap(outward))].toSorted())
    for (const [link, date] of Object.entries(links)) assert.match(date, /^2\d{3}-\d{2}-\d{2}$/, link)
  })

  it("DOCS-2 links between pages, pictures and files of the repository become links of the site", () => {
    const copied: Array<string> = []
    const made = (address: string) =>
      relink(
        "docs/a.md",
        "[B](b.md#c) [R](../README.md#install) [T](../test/t.ts) ![P](../bench/p.svg) [O](https://o.test/) [H](#h)",
        (picture) => copied.push(picture),
        address
      )
    const page = (file: string) =>
      `[B](/b.md#c) [R](/index.md#install) ${file} ![P](/p.svg) [O](https://o.test/) [H](#h)`
    assert.strictEqual(made(""), page("T (`test/t.ts`)"))
    assert.strictEqual(made("https://git.example/a"), page("[T](https://git.example/a/blob/main/test/t.ts)"))
    assert.deepStrictEqual(copied, ["bench/p.svg", "bench/p.svg"])
  })
})

it("DOCS-4 the skill has fewer than 3,000 tokens", () => {
  assert.isBelow(encode(text("skills/effect-emissary/SKILL.md")).length, 3_000)
})

describe("DOCS-2 the page about errors", () => {
  const page = text("docs/errors.md")
  const sections = new Map(page.split(/^## /m).map((section) => [section.split("\n", 1)[0] ?? "", section] as const))
  const sources = glob("src/**/*.ts").map((path) => [path, text(path)] as const)

  it("DOCS-2 has each tagged error", () => {
    const tags = sources.flatMap(([, source]) =>
      [...source.matchAll(/Schema\.TaggedError<\w+>\([^()]*\)\(\s*"(\w+)"/g)].map(([, tag = ""]) => tag)
    )
    assert.isAbove(tags.length, 25)
    const tests = sections.get("In tests") ?? ""
    assert.deepStrictEqual(
      tags.filter((tag) => !sections.has(tag) && !tests.includes(`\`${tag}\``)),
      []
    )
  })

  it.each([
    ["AgentError", "src/agent/internal/agentReason.ts", "export const PlainReason"],
    ["ModelRegistryError", "src/agent/ModelRegistry.ts", "const Reason ="],
    ["BindError", "src/tool/ToolResolver.ts", "const BindErrorReason"],
    ["ConversationError", "src/conversation/ConversationError.ts", "export const Reason"],
    ["SessionError", "src/session/internal/types.ts", "export const Reason"],
    ["PayloadError", "src/payload/PayloadError.ts", "export const Reason"],
    ["McpToolsError", "src/mcp/McpTools.ts", "const ErrorReason"],
    ["VersionedStoreError", "src/store/internal/storeService.ts", "StoreReason ="]
  ] as const)("DOCS-2 has each reason of %s", (error, path, from) => {
    const source = text(path)
    const union = source.slice(source.indexOf(from))
    const reasons = [...union.slice(0, union.indexOf("\n})")).matchAll(/^ {2}([A-Z]\w+):/gm)].map(([, tag = ""]) => tag)
    assert.isAbove(reasons.length, 1)
    const rows = sections.get(error) ?? ""
    assert.deepStrictEqual(
      reasons.filter((reason) => !rows.includes(`| \`${reason}\``)),
      []
    )
  })

  it("DOCS-2 has each outcome without an answer", () => {
    const rows = sections.get("RunIncomplete") ?? ""
    const outcomes = Object.keys(Run.Outcome.cases).filter((outcome) => outcome !== "Completed")
    assert.deepStrictEqual(
      outcomes.filter((outcome) => !rows.includes(`| \`${outcome}\``)),
      []
    )
  })
})
