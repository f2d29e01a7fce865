/** A Chromium for the tests of pages, and the server of an example that can be killed, started again and cut off. */
import { assert, it } from "@effect/vitest"
import { spawn, type ChildProcess } from "node:child_process"
import { once } from "node:events"
import { existsSync } from "node:fs"
import { mkdtemp, rm } from "node:fs/promises"
import { createServer } from "node:http"
import * as net from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import type { Browser, BrowserContext, BrowserContextOptions, Page } from "playwright-core"
import { root } from "../package/run.ts"

const places = [
  process.env["EMISSARY_CHROMIUM"],
  "/usr/bin/chromium",
  "/usr/bin/chromium-browser",
  "/usr/bin/google-chrome"
]

/** The driver is a package of this folder, and the browser one of the machine: a machine may have neither. */
const driver = await import("playwright-core").catch(() => undefined)

const executablePath = places.find((place) => place !== undefined && existsSync(place))

export const missing: string | undefined =
  driver === undefined
    ? "playwright-core is not installed: npm ci --prefix test/screen"
    : executablePath === undefined
      ? "there is no Chromium: install it, or set EMISSARY_CHROMIUM"
      : undefined

/** Adds a test with the reason why there is no browser, which fails where a browser has to be there. */
export const sayMissing = (): void => {
  it.runIf(missing !== undefined)("SCREEN-8 without a browser nothing is tested in one", () => {
    assert.notStrictEqual(process.env["EMISSARY_BROWSER"], "required", missing)
    process.stderr.write(`The pages were not tested in a browser: ${missing}\n`)
  })
}

export const launch = async (): Promise<Browser> => {
  assert(driver !== undefined && executablePath !== undefined)
  return driver.chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-gpu"] })
}

const listen = async (server: net.Server): Promise<number> => {
  server.listen(0, "127.0.0.1")
  await once(server, "listening")
  const address = server.address()
  assert(typeof address === "object" && address !== null)
  return address.port
}

const freePort = async (): Promise<number> => {
  const server = createServer()
  const port = await listen(server)
  server.close()
  await once(server, "close")
  return port
}

/** The server of an example on a file of its own, and a way to it that can be cut. */
export interface Site {
  /** The address of the page. */
  readonly url: string
  /** Ends the process: `SIGKILL` as a crash does, `SIGTERM` as a deploy does. */
  readonly end: (signal: "SIGKILL" | "SIGTERM") => Promise<void>
  /** Starts the server, on the file that the one before had. */
  readonly start: () => Promise<void>
  /** Cuts all connections, and lets none through until `mend`. */
  readonly cut: () => void
  readonly mend: () => void
  readonly close: () => Promise<void>
}

/** A program with its arguments, and the folder where it runs. */
export interface Program {
  readonly args: ReadonlyArray<string>
  readonly cwd: string
}

/** An example with a file for its sessions. */
const exampleOf =
  (name: string) =>
  async (folder: string): Promise<Program> => ({ args: [join(root, name), join(folder, "chats.sqlite")], cwd: folder })

/** Starts an example, or the program that is written into a folder, with settings in its environment. */
export const openSite = async (
  program: string | ((folder: string, port: number) => Promise<Program>),
  settings: Readonly<Record<string, string>> = {}
): Promise<Site> => {
  const folder = await mkdtemp(join(tmpdir(), "emissary-screen-"))
  const port = await freePort()
  const { args, cwd } = await (typeof program === "string" ? exampleOf(program) : program)(folder, port)
  let child: ChildProcess | undefined
  const start = async () => {
    const env = { ...process.env, EMISSARY_MODEL: undefined, NODE_NO_WARNINGS: "1", PORT: String(port), ...settings }
    const started = spawn(process.execPath, args, { cwd, env, stdio: ["ignore", "pipe", "ignore"] })
    child = started
    await new Promise<void>((resolve, reject) => {
      // A pipe without a reader would stop a program that logs
      started.stdout.on("data", (text: Buffer) => text.includes("http://") && resolve())
      started.on("exit", () => reject(new Error("The server ended before it was ready.")))
    })
  }
  const end = async (signal: "SIGKILL" | "SIGTERM") => {
    const ended = child
    if (ended === undefined) return
    child = undefined
    ended.kill(signal)
    if (ended.exitCode === null && ended.signalCode === null) await once(ended, "exit")
  }
  let isCut = false
  const sockets = new Set<net.Socket>()
  const way = net.createServer((socket) => {
    if (isCut) return void socket.destroy()
    const next = net.connect(port, "127.0.0.1")
    for (const side of [socket, next]) {
      sockets.add(side)
      side.on("error", () => undefined)
      side.on("close", () => {
        sockets.delete(side)
        socket.destroy()
        next.destroy()
      })
    }
    socket.pipe(next).pipe(socket)
  })
  const destroy = () => {
    for (const socket of sockets) socket.destroy()
  }
  await start()
  return {
    url: `http://127.0.0.1:${await listen(way)}`,
    start,
    end,
    cut: () => {
      isCut = true
      destroy()
    },
    mend: () => {
      isCut = false
    },
    close: async () => {
      await end("SIGTERM")
      destroy()
      way.close()
      await rm(folder, { recursive: true })
    }
  }
}

/** A person with a browser of his own: no cookies, nothing kept. */
export interface Person {
  readonly context: BrowserContext
  readonly page: Page
  /** The errors of the pages of this person, and the content that they refused. */
  readonly problems: ReadonlyArray<string>
}

export const meet = async (browser: Browser, url: string, options?: BrowserContextOptions): Promise<Person> => {
  const context = await browser.newContext({
    viewport: { width: 1280, height: 800 },
    reducedMotion: "reduce",
    ...options
  })
  context.setDefaultTimeout(90_000)
  const problems: Array<string> = []
  context.on("weberror", (error) => problems.push(String(error.error())))
  context.on("console", (message) => {
    if (message.type() === "error" && !/ERR_|Failed to load resource/.test(message.text()))
      problems.push(message.text())
  })
  const page = await context.newPage()
  await page.goto(url)
  return { context, page, problems }
}
