/**
 * `npm run picture:chat` makes the picture of the README: the example chat in two tabs of a browser, while the model writes, after its server
 * was killed, and after the server was started again. It needs Chromium, and `npm ci --prefix test/screen`.
 */
import { spawn, type ChildProcess } from "node:child_process"
import { once } from "node:events"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { chromium } from "playwright-core"
import { root } from "../package/run.ts"

const folder = mkdtempSync(join(tmpdir(), "emissary-picture-"))
const port = 4123

const start = async (): Promise<ChildProcess> => {
  const server = spawn(process.execPath, ["--no-warnings", "examples/web-chat/main.ts", join(folder, "chats.sqlite")], {
    cwd: root,
    env: { ...process.env, PORT: String(port) },
    stdio: ["ignore", "pipe", "inherit"]
  })
  await once(server.stdout, "data")
  return server
}

const kill = async (server: ChildProcess): Promise<void> => {
  server.kill("SIGKILL")
  await once(server, "exit")
}

const browser = await chromium.launch({
  executablePath: process.env["EMISSARY_CHROMIUM"] ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu"]
})
const context = await browser.newContext({ viewport: { width: 400, height: 400 }, colorScheme: "light" })

let server = await start()
const first = await context.newPage()
await first.goto(`http://127.0.0.1:${port}/`)
const field = first.getByRole("textbox", { name: "Message", exact: true })
await field.fill("Tell me a story")
await field.press("Enter")
await first.waitForURL(/#./)
const second = await context.newPage()
await second.goto(first.url())
const tabs = [first, second]

/** Both tabs at one moment, as data addresses. */
const shoot = () => Promise.all(tabs.map(async (tab) => (await tab.screenshot({ type: "png" })).toString("base64")))
/** The length of the text of both tabs has passed a limit. */
const longer = (limit: number) =>
  Promise.all(tabs.map((tab) => tab.waitForFunction((limit) => document.body.innerText.length > limit, limit)))

await longer(420)
const writing = await shoot()
await kill(server)
await Promise.all(tabs.map((tab) => tab.locator("#banner:not([hidden])").waitFor()))
const killed = await shoot()
server = await start()
await Promise.all(tabs.map((tab) => tab.getByText("all copies were equal").first().waitFor()))
const ended = await shoot()
await kill(server)

const moments = [
  ["1. The model writes, in both tabs", writing],
  ["2. The server is killed: kill -9", killed],
  ["3. It is started again: the answer is whole", ended]
] as const
const page = await browser.newPage({ viewport: { width: 1260, height: 900 } })
await page.setContent(`<style>
  body { margin: 0; padding: 16px; background: #eef0f3; font: 600 15px system-ui; color: #1a1a1a; display: flex; gap: 14px; width: 1228px }
  div { flex: 1 } img { display: block; width: 100%; margin-top: 10px; border: 1px solid #c3c8d0; border-radius: 8px }
</style>${moments
  .map(
    ([title, images]) =>
      `<div>${title}${images.map((image) => `<img src="data:image/png;base64,${image}">`).join("")}</div>`
  )
  .join("")}`)
await page.locator("body").screenshot({ path: join(root, "site/public/chat.png") })
await browser.close()
rmSync(folder, { recursive: true })
