import { assert, describe, it } from "@effect/vitest"
import { existsSync, globSync, readFileSync } from "node:fs"
import { dirname, join } from "node:path"
import { measure, publicNames } from "../../scripts/house.ts"
import { root } from "./run.ts"

const text = (path: string) => readFileSync(join(root, path), "utf8")

/** The code that users are shown: fences and code spans of the pages, and the examples. */
const shown = [
  ...["README.md", ...globSync("docs/*.md", { cwd: root })].flatMap((path) =>
    text(path).match(/`{3,}[^]*?`{3,}|`[^`\n]+`/g)
  ),
  ...globSync("examples/**/*.ts", { cwd: root }).map(text)
].join("\n")

describe("HOUSE-3 exports", () => {
  const figures = measure()
  const namespaces = new Set(Object.values(figures.surface).flatMap((surface) => surface.namespaces))

  it("HOUSE-3 the public names are the reviewed ones", () => {
    // after a review: npm run -s house -- --names > test/package/public-names.txt
    assert.strictEqual(publicNames(figures), text("test/package/public-names.txt"))
  })

  it("KEEP-1 KEEP-4 sessions keep a run, from a room of their own, and no other store of runs or chats is public", () => {
    const names = new Set(publicNames(figures).split("\n"))
    assert.isTrue(namespaces.has("Session") && existsSync(join(root, "src/session/Session.ts")))
    for (const gone of ["ConversationStore", "Checkpoint", "Durable"]) {
      assert.isFalse(namespaces.has(gone), gone)
      assert.isFalse(
        [...names].some((name) => name.split(".").includes(gone)),
        gone
      )
    }
    assert.isFalse(existsSync(join(root, "src/durable")))
    assert.isTrue(existsSync(join(root, "src/store")) && existsSync(join(root, "src/workflow")))
  })

  it("HOUSE-3 each public namespace is used in README, docs or an example", () => {
    assert.deepStrictEqual(
      [...namespaces].filter((name) => !new RegExp(`\\b${name}\\.[A-Za-z]`).test(shown)),
      []
    )
  })

  it("HOUSE-8 the pages name only members that are public", () => {
    const pages = ["README.md", ...globSync("docs/*.md", { cwd: root })]
    const members = new Set(publicNames(figures).split("\n"))
    const unknown = pages.flatMap((page) =>
      [...text(page).matchAll(/(?<![\w.])([A-Z]\w+)\.([A-Za-z]\w*)/g)]
        .filter(([name, namespace = ""]) => namespaces.has(namespace) && !members.has(name))
        .map(([name]) => `${page}: ${name}`)
    )
    assert.deepStrictEqual(unknown, [])
  })

  it("KEEP-9 the links of the pages lead to files and headings that exist", () => {
    const slug = (heading: string) =>
      heading
        .toLowerCase()
        .replace(/[^\p{L}\p{N} _-]/gu, "")
        .replaceAll(" ", "-")
    const anchors = (path: string) =>
      text(path)
        .replace(/^```[^]*?^```/gm, "")
        .split("\n")
        .flatMap((line) => /^#+ (.*)/.exec(line)?.slice(1).map(slug) ?? [])
    const broken = globSync(["*.md", "docs/*.md", "bench/*.md"], { cwd: root }).flatMap((page) =>
      [...text(page).matchAll(/\]\((?!https?:)([^()#\s]*)(?:#([^()\s]*))?\)/g)]
        .filter(([, to = "", anchor]) => {
          const path = to === "" ? page : join(dirname(page), to)
          return !existsSync(join(root, path)) || (anchor !== undefined && !anchors(path).includes(anchor))
        })
        .map(([link]) => `${page}: ${link}`)
    )
    assert.deepStrictEqual(broken, [])
  })

  it.each([
    ["TRUST-10", "security", 20],
    ["DOCS-2", "reliability", 14]
  ] as const)("%s the tests that the page %s cites exist", (_, page, least) => {
    const cited = [...text(`docs/${page}.md`).matchAll(/`(test\/[\w/.-]+)`: "([^"]+)"/g)]
    const missing = cited.filter(([, path = "", name = ""]) => !text(path).includes(name)).map(([found]) => found)
    assert.deepStrictEqual(missing, [])
    assert.isAbove(cited.length, least)
  })
})
