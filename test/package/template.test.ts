/** The chat that `npx effect-emissary` makes, from the tarball. Packages are linked in the place of `npm install`. */
import { assert, beforeAll, describe, it } from "@effect/vitest"
import { spawn, type ChildProcess } from "node:child_process"
import { once } from "node:events"
import { existsSync, readFileSync } from "node:fs"
import { cp, mkdir, mkdtemp, rm, symlink } from "node:fs/promises"
import { createServer } from "node:net"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { afterAll, onTestFinished } from "vitest"
import { connect, type Entry } from "../../browser/sessions.js"
import manifest from "../../package.json" with { type: "json" }
import { requireBuild, root, run } from "./run.ts"

const postgres = process.env["EMISSARY_TEST_POSTGRES"] ?? ""

const succeed = async (command: string, args: ReadonlyArray<string>, cwd?: string): Promise<string> => {
  const { code, output } = await run(command, args, cwd)
  assert.strictEqual(code, 0, output)
  return output
}

const freePort = async (): Promise<number> => {
  const server = createServer().listen(0, "127.0.0.1")
  await once(server, "listening")
  const address = server.address()
  assert(typeof address === "object" && address !== null)
  server.close()
  await once(server, "close")
  return address.port
}

/** Starts a program of a chat, and returns when its server answers. */
const start = async (cwd: string, args: ReadonlyArray<string>, env: Readonly<Record<string, string>>) => {
  const child = spawn(process.execPath, args, {
    cwd,
    env: { ...process.env, EMISSARY_MODEL: undefined, NODE_NO_WARNINGS: "1", CHAT_PASSWORD: "s3cret", ...env },
    stdio: ["ignore", "pipe", "pipe"]
  })
  let output = ""
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (text: Buffer) => (output += text.toString()))
  onTestFinished(() => void child.kill("SIGKILL"))
  const url = `http://127.0.0.1:${env["PORT"]}`
  for (;;) {
    assert.isNull(child.exitCode, output)
    // a request that arrives between the port and the routes is not answered
    const health = await fetch(`${url}/health`, { signal: AbortSignal.timeout(1_000) }).catch(() => undefined)
    if (health?.ok === true) break
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
  return { child, url, chat: connect({ url: `${url}/sessions`, token: "s3cret" }) }
}

const end = async (child: ChildProcess, signal: "SIGKILL" | "SIGTERM") => {
  child.kill(signal)
  if (child.exitCode === null && child.signalCode === null) await once(child, "exit")
}

/** The first event that has these fields, of the events of a chat. */
const first = async (chat: ReturnType<typeof connect>, fields: Readonly<Record<string, string>>): Promise<Entry> => {
  for await (const entry of chat.events("ada/1")) {
    if (Object.entries(fields).every(([name, value]) => entry.event[name] === value)) return entry
  }
  throw new Error(`no event with ${JSON.stringify(fields)}`)
}
const requested = { _tag: "Requested" }
const completed = { _tag: "TurnFinished", outcome: "Completed" }

const approve = async (chat: ReturnType<typeof connect>, { event }: Entry) => {
  const { callId, digest, path } = event["request"] as { callId: string; digest: string; path?: ReadonlyArray<string> }
  await chat.command("decide", "ada/1", { decisions: [{ callId, digest, path, approved: true }] })
}

describe("DOCS-7 the chat to begin with", () => {
  let folder: string
  let project: string

  requireBuild()
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "emissary-template-"))
    await succeed("npm", ["pack", "--ignore-scripts", "--pack-destination", folder])
    await succeed("tar", ["-xzf", join(folder, `${manifest.name}-${manifest.version}.tgz`), "-C", folder])
    project = join(folder, "my-chat")
    await succeed("node", [join(folder, "package", manifest.bin["effect-emissary"]), project])
  })
  afterAll(() => rm(folder, { recursive: true, force: true }))

  /** Links the packages that a manifest names, in the versions that it allows. */
  const install = async (cwd: string, kinds: ReadonlyArray<"dependencies" | "devDependencies">) => {
    const asked: Record<string, Record<string, string>> = JSON.parse(readFileSync(join(cwd, "package.json"), "utf8"))
    for (const [name, range] of kinds.flatMap((kind) => Object.entries(asked[kind] ?? {}))) {
      const own = name === manifest.name
      const from = own ? join(folder, "package") : join(root, "node_modules", name)
      const { version }: { version: string } = JSON.parse(readFileSync(join(from, "package.json"), "utf8"))
      assert.strictEqual(range.replace(/^\^(\d+).*/, "$1"), version.replace(/\..*/, ""), `${name} ${range}, ${version}`)
      await mkdir(dirname(join(cwd, "node_modules", name)), { recursive: true })
      await symlink(from, join(cwd, "node_modules", name))
    }
    // the tarball finds its own dependencies beside it
    if (!existsSync(join(folder, "node_modules")))
      await symlink(join(root, "node_modules"), join(folder, "node_modules"))
  }

  it("DOCS-7 refuses a folder with files, and names the package after the new folder", async () => {
    const { code, output } = await run("node", [join(folder, "package/template/create.mjs"), project])
    assert.strictEqual(code, 1)
    assert.match(output, /expected an empty folder, found files in/)
    assert.include(readFileSync(join(project, "package.json"), "utf8"), `"name": "my-chat"`)
    assert.include(readFileSync(join(project, ".gitignore"), "utf8"), "node_modules")
  })

  it("DOCS-7 has the page of docs/chat.md", () => {
    const [, page] = /```html\n(<!doctype[^]*?)```/.exec(readFileSync(join(root, "docs/chat.md"), "utf8")) ?? []
    assert.strictEqual(readFileSync(join(project, "public/index.html"), "utf8"), page)
  })

  it("DOCS-7 compiles, and its tests pass", async () => {
    await install(project, ["dependencies", "devDependencies"])
    await succeed("tsc", ["-p", "."], project)
    assert.match(await succeed("vitest", ["run"], project), /2 passed/)
  })

  it("DOCS-7 the commands of the Dockerfile, in their order, make a chat that survives a kill", async () => {
    const image = join(folder, "image")
    const data = join(image, "data")
    await mkdir(data, { recursive: true })
    const env: Record<string, string> = {}
    let command: ReadonlyArray<string> = []
    for (const line of readFileSync(join(project, "Dockerfile"), "utf8").split("\n")) {
      const [, word = "", rest = ""] = /^([A-Z]+) (.*)$/.exec(line) ?? []
      if (word === "COPY") {
        const [from = "", to = ""] = rest.split(" ")
        for (const name of from === "package*.json" ? ["package.json"] : [from])
          await cp(join(project, name), join(image, from === "package*.json" ? name : to), { recursive: true })
      } else if (word === "RUN") {
        assert.strictEqual(rest, "npm install --omit=dev")
        await install(image, ["dependencies"])
      } else if (word === "ENV") {
        for (const pair of rest.split(" ")) env[pair.slice(0, pair.indexOf("="))] = pair.slice(pair.indexOf("=") + 1)
      } else if (word === "CMD") {
        command = JSON.parse(rest)
      } else if (word !== "") assert.include(["FROM", "WORKDIR", "VOLUME", "EXPOSE"], word)
    }
    assert.strictEqual(env["DATA"], "/data")
    assert.strictEqual(command[0], "node")
    const settings = { ...env, DATA: data, PORT: String(await freePort()) }
    const before = await start(image, command.slice(1), settings)
    assert.include(await (await fetch(before.url)).text(), "<title>Chat</title>")
    await before.chat.command("send", "ada/1", { input: "Refund order 42", messageId: "m1" })
    const asked = await first(before.chat, requested)
    await end(before.child, "SIGKILL")

    const after = await start(image, command.slice(1), settings)
    await approve(after.chat, asked)
    await first(after.chat, completed)
    await end(after.child, "SIGTERM")
    assert.isFalse(existsSync(join(image, "chat.sqlite")))
  })

  it.skipIf(postgres === "")("DOCS-7 two runners of the compose file share the chats in PostgreSQL", async () => {
    const compose = readFileSync(join(project, "compose.yaml"), "utf8")
    const command: ReadonlyArray<string> = JSON.parse(/^ {4}command: (\["node".*\])$/m.exec(compose)?.[1] ?? "[]")
    const address = /^ {6}DATABASE_URL: (\S+)$/m.exec(compose)?.[1]
    assert.strictEqual(address, "postgres://postgres@database:5432/postgres")
    const name = `effect_emissary_template_${process.pid}`
    const sql = (statement: string) =>
      succeed("node", ["--input-type=module", "-e", administer, postgres, statement], root)
    await sql(`CREATE DATABASE ${name}`)
    onTestFinished(async () => void (await sql(`DROP DATABASE ${name} WITH (FORCE)`)))
    const url = new URL(postgres)
    url.pathname = `/${name}`
    const runner = async () =>
      start(project, command.slice(1), {
        DATABASE_URL: url.href,
        PORT: String(await freePort()),
        RUNNER_HOST: "127.0.0.1",
        RUNNER_PORT: String(await freePort())
      })
    const [one, two] = [await runner(), await runner()]
    await one.chat.command("send", "ada/1", { input: "Refund order 42", messageId: "m1" })
    const asked = await first(two.chat, requested)
    await end(one.child, "SIGTERM")
    await approve(two.chat, asked)
    await first(two.chat, completed)
    await end(two.child, "SIGTERM")
  })
})

/** A program that runs one statement on PostgreSQL. */
const administer = `
import { PgClient } from "@effect/sql-pg"
import { Effect, Redacted } from "effect"
const [url, statement] = process.argv.slice(1)
const run = Effect.gen(function* () { yield* (yield* PgClient.PgClient).unsafe(statement) })
await Effect.runPromise(Effect.provide(run, PgClient.layer({ url: Redacted.make(url) })))
`
