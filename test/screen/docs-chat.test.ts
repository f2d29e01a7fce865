/** The steps of docs/chat.md, with the packages of this repository. */
import { assert, describe, it } from "@effect/vitest"
import { readFileSync } from "node:fs"
import { mkdir, readdir, symlink, writeFile } from "node:fs/promises"
import { dirname, join } from "node:path"
import type { Page } from "playwright-core"
import { connect } from "../../browser/sessions.js"
import { requireBuild, root, run } from "../package/run.ts"
import { launch, meet, missing, openSite, type Program, type Site } from "./browser.ts"

const page = readFileSync(join(root, "docs", "chat.md"), "utf8")

/** The blocks of a section, in their order. */
const blocks = (section: string): ReadonlyArray<string> => {
  const text = page.split(/^## /m).find((one) => one.startsWith(section))
  assert(text !== undefined, section)
  return [...text.matchAll(/^```[^\n]*\n([^]*?)^```$/gm)].map(([, block]) => block ?? "")
}

const [shell = ""] = blocks("1. A folder")
const [server = ""] = blocks("2. The server")
const [html = ""] = blocks("3. The page")
const [tool = ""] = blocks("A tool that asks first")

const replaced = (text: string, from: string, to: string): string => {
  assert.include(text, from)
  return text.replace(from, () => to)
}

/** Does what a reader does. The packages are linked in the place of `npm install`. */
const follow =
  (files: Record<string, string>) =>
  async (folder: string, port: number): Promise<Program> => {
    for (const line of shell.trim().split("\n")) {
      const packages = /^npm install (.*)$/.exec(line)?.[1]?.split(" ")
      if (packages === undefined) {
        const { code, output } = await run("sh", ["-c", line], line.startsWith("mkdir") ? folder : join(folder, "chat"))
        assert.strictEqual(code, 0, output)
        continue
      }
      for (const name of packages.map((name) => name.replace(/(?<=.)@.*$/, ""))) {
        const place = join(folder, "chat", "node_modules", name)
        await mkdir(dirname(place), { recursive: true })
        await symlink(name === "effect-emissary" ? root : join(root, "node_modules", name), place)
      }
    }
    assert.deepStrictEqual((await readdir(join(folder, "chat"))).toSorted(), ["node_modules", "package.json"])
    for (const [name, text] of Object.entries(files)) {
      const shown = name === "server.ts" ? replaced(text, "port: 3000", `port: ${port}`) : text
      await writeFile(join(folder, "chat", name), shown)
    }
    return { args: ["server.ts"], cwd: join(folder, "chat") }
  }

const withTool = replaced(
  replaced(
    replaced(
      server,
      `const assistant = Agent.make("assistant", { instructions: "You are brief." })\n`,
      `import { assistant, ToolsLive } from "./tool.ts"\n`
    ),
    `}), ModelLive]`,
    `}), ModelLive, ToolsLive]`
  ),
  "({ messages }) => ({\n",
  `({ messages }) => (messages.at(-1)?.role === "user" ? { toolCalls: [{ name: "refund", params: { order: "42" } }] } : {\n`
).replace(`  chunkDelay: "100 millis"\n}))`, `  chunkDelay: "1 millis"\n}))`)

const files = { "server.ts": server, "index.html": html }

const open = (more: Record<string, string> = {}) => openSite(follow({ ...files, ...more }))

const enter = (page: Page, site: Site) => {
  page.on("dialog", (dialog) => void dialog.accept("s3cret"))
  return page.goto(site.url)
}

const write = async (page: Page, text: string) => {
  await page.getByRole("textbox", { name: "Message" }).fill(text)
  await page.keyboard.press("Enter")
}

const whole = 'You wrote "Hello", and this is an answer that takes its time.'

describe("SCREEN-9 docs/chat.md", { concurrent: true }, () => {
  requireBuild()

  it("has a server of at most 40 lines", () => {
    assert.isAtMost(server.trimEnd().split("\n").length, 40)
  })

  it("leads to a server that answers its user, and no other one", async () => {
    const site = await open()
    try {
      assert.strictEqual(await (await fetch(site.url)).text(), html)
      const chat = connect({ url: `${site.url}/sessions`, token: "s3cret" })
      await chat.command("send", "ada/1", { input: "Hello" })
      let tags = ""
      for await (const { event } of chat.events("ada/1")) {
        tags += ` ${event._tag}`
        if (event._tag === "TurnFinished") break
      }
      assert.match(tags, /MessageReceived .*AnswerDelta .*Answered TurnFinished$/)
      const { status } = await connect({ url: `${site.url}/sessions`, token: "guess" })
        .query("chat/history", { id: "ada/1" })
        .catch((error: { readonly status: number }) => error)
        .then((answer) => ({ status: 200, ...Object(answer) }))
      assert.strictEqual(status, 401)
    } finally {
      await site.close()
    }
  })

  it.runIf(missing === undefined)(
    "leads to a page whose text survives a reload, a stop and a killed server",
    async () => {
      const [site, browser] = await Promise.all([open(), launch()])
      try {
        const { context, page } = await meet(browser, "about:blank")
        await enter(page, site)
        await write(page, "Hello")
        await page.getByText(/^You wrote "Hello", and this/).waitFor()
        await page.reload()
        const second = await context.newPage()
        await enter(second, site)
        await Promise.all([page.getByText(whole).waitFor(), second.getByText(whole).waitFor()])
        assert.deepStrictEqual(await second.locator("main p").allInnerTexts(), ["You: Hello", whole])
        await second.close()

        await write(page, "Hello")
        await page.locator("main p").nth(3).waitFor()
        await site.end("SIGKILL")
        await page.getByText("The connection is lost").waitFor()
        await site.start()
        await page.getByText(whole).nth(1).waitFor()
        assert.strictEqual(await page.locator("main p").count(), 4)

        await write(page, "Hello ".repeat(100))
        const stopped = page.getByText(/^You wrote "Hello Hello/)
        await stopped.waitFor()
        await page.getByRole("button", { name: "Stop" }).click()
        const chat = connect({ url: `${site.url}/sessions`, token: "s3cret" })
        for await (const { event } of chat.events("ada/1")) if (event["outcome"] === "Interrupted") break
        await page.reload()
        await stopped.waitFor()
        assert.notInclude(await stopped.innerText(), "takes its time")
      } finally {
        await browser.close()
        await site.close()
      }
    }
  )

  it.runIf(missing === undefined)("leads to a call that waits for a person at the page", async () => {
    const [site, browser] = await Promise.all([open({ "server.ts": withTool, "tool.ts": tool }), launch()])
    try {
      const { page } = await meet(browser, "about:blank")
      await enter(page, site)
      await write(page, "Refund order 42")
      await page.getByText('May I? "refund" {"order":"42"}').waitFor()
      await page.getByRole("button", { name: "Yes" }).click()
      await page.getByText("Order 42 is paid back.").waitFor()
      assert.strictEqual(await page.getByText("May I?").count(), 0)
    } finally {
      await browser.close()
      await site.close()
    }
  })
})
