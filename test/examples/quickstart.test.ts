import { assert, describe, it } from "@effect/vitest"
import { Effect, Option } from "effect"
import { AgentDefinition } from "effect-emissary"
import { Json } from "effect-emissary/payload"
import { build } from "esbuild"
import { spawn } from "node:child_process"
import { createServer } from "node:http"
import { cp, mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises"
import { dirname, join, relative } from "node:path"
import { afterAll, onTestFinished } from "vitest"
import { requireBuild, root, run } from "../package/run.ts"
import { pluck } from "../pluck.ts"
import { assertInOrder, expected } from "./page.ts"

const quickstart = join(root, "examples", "quickstart")
const main = join(quickstart, "main.ts")
const timeout = 180_000

const match = (output: string, pattern: RegExp): string => {
  const found = pattern.exec(output)?.[1]
  assert(found !== undefined, `${pattern} does not match:\n${output}`)
  return found
}

/** Removes what the quickstart leaves for its reader. */
const removeFiles = (output: string): Promise<void> => {
  const file = /^The agent as data: (.+)$/m.exec(output)?.[1]
  return file === undefined ? Promise.resolve() : rm(dirname(file), { recursive: true })
}

const isAlive = (pid: number): boolean => {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}

describe("EX-1 quickstart", () => {
  requireBuild()

  it("EX-1 two processes produce one transcript, and the file is data", { timeout }, async () => {
    const { code, output } = await run("node", [main])
    onTestFinished(() => removeFiles(output))
    assert.strictEqual(code, 0, output)

    const [origin = "", receiver = ""] = output.split("Receiver: ")
    assert.notStrictEqual(match(origin, /process (\d+)/), match(receiver, /process (\d+)/))
    for (const timeline of [origin, receiver]) {
      for (const step of [1, 2, 3]) assert.include(timeline, ` s  step ${step}\n`)
      assert.isAtLeast(Number(match(timeline, /result {2}get_order, (\d+) ms: /)), 290)
      assert.match(timeline, /call {4}quote_delivery \{"address":\{"street"/)
      assert.match(timeline, /failure track_parcel, \d+ ms: CarrierUnavailable: /)
      assert.match(timeline, /result {2}quote_delivery, \d+ ms: .*"paidBy":"Acme Outdoor"/)
      assert.include(timeline, "Completed: Order 1042 has been shipped")
    }
    assertInOrder(output, expected["quickstart"] ?? [])

    const text = await readFile(match(output, /^The agent as data: (.+)$/m), "utf8")
    const json = Effect.runSync(Json.parse(text))
    assert.isTrue(Option.isNone(Json.findSecret(json)))
    assert.notMatch(text, /=>|function|import|\bfile:|https?:|\.ts\b/)
    assert.notMatch(text, /[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-/, "the token")
    const definition = await Effect.runPromise(AgentDefinition.codec.decode(json))
    assert.deepStrictEqual(pluck(definition.tools, "name"), ["get_order", "track_parcel", "quote_delivery"])
    assert.deepStrictEqual(await Effect.runPromise(AgentDefinition.codec.encode(definition)), json)
  })

  it("L1 the receiver has no code of the agent or of its tools", async () => {
    const { metafile, outputFiles } = await build({
      entryPoints: [join(quickstart, "receiver.ts")],
      bundle: true,
      packages: "external",
      platform: "node",
      format: "esm",
      metafile: true,
      write: false,
      absWorkingDir: root,
      tsconfigRaw: {} // no paths: what is imported by name stays outside
    })
    assert.deepStrictEqual(Object.keys(metafile.inputs).toSorted(), [
      "examples/quickstart/receiver.ts",
      "examples/quickstart/scenario.ts",
      "examples/quickstart/timeline.ts"
    ])
    const imports = Object.values(metafile.outputs).flatMap(({ imports }) => imports.map(({ path }) => path))
    assert.notInclude(imports, "effect/ai")
    for (const { text } of outputFiles) assert.notMatch(text, /get_order|CarrierUnavailable|quote_delivery/)
  })

  it("MODEL-2 EMISSARY_MODEL without its key names the variable", { timeout }, async () => {
    const { code, output } = await run("env", ["-u", "OPENAI_API_KEY", "EMISSARY_MODEL=openai/gpt-5.2", "node", main])
    assert.strictEqual(code, 1)
    assert.match(output, /AgentError: .*"openai\/gpt-5\.2".*needs a key\. Set OPENAI_API_KEY/)
    assert.notInclude(output, "step 1")
  })

  it("MODEL-2 EMISSARY_MODEL runs both processes on a local server, without a key", { timeout }, async () => {
    const calls: Array<string> = []
    const deltas = (...parts: ReadonlyArray<object>) =>
      parts.map((part) => `data: ${JSON.stringify(part)}\n\n`).join("")
    const chunk = (delta: object, finish_reason: string | null = null) => ({
      id: "1",
      created: 0,
      model: "qwen3",
      choices: [{ index: 0, delta, finish_reason }]
    })
    const call = {
      index: 0,
      id: "c1",
      type: "function",
      function: { name: "get_order", arguments: `{"id":"1042"}` }
    }
    const server = createServer((request, response) => {
      let body = ""
      request.setEncoding("utf8")
      request.on("data", (text: string) => (body += text))
      request.on("end", () => {
        calls.push(body)
        const answered = body.includes(`"role":"tool"`)
        response.writeHead(200, { "content-type": "text/event-stream" })
        response.end(
          answered
            ? deltas(chunk({ role: "assistant", content: "It is on its way." }), chunk({}, "stop"))
            : deltas(chunk({ role: "assistant", tool_calls: [call] }), chunk({}, "tool_calls"))
        )
      })
    })
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
    onTestFinished(() => void server.close())
    const address = server.address()
    assert(typeof address === "object" && address !== null)
    const url = `OLLAMA_BASE_URL=http://127.0.0.1:${address.port}/v1`
    const { code, output } = await run("env", ["EMISSARY_MODEL=ollama/qwen3", url, "node", main])
    onTestFinished(() => removeFiles(output))
    assert.strictEqual(code, 0, output)
    assert.strictEqual(calls.length, 4)
    const [origin = "", receiver = ""] = output.split("Receiver: ")
    for (const timeline of [origin, receiver]) {
      assert.match(timeline, /call {4}get_order/)
      assert.include(timeline, "Completed: It is on its way.")
    }
    assert.include(output, "A real model answered twice, with 5 and 5 messages.")
  })

  it("EX-1 Ctrl-C ends both processes", { timeout }, async () => {
    const child = spawn(process.execPath, [main], { cwd: root, stdio: ["ignore", "pipe", "ignore"] })
    const exited = new Promise<number | null>((resolve) => child.on("exit", resolve))
    let output = ""
    const receiver = await new Promise<number>((resolve, reject) => {
      child.stdout.setEncoding("utf8").on("data", (text: string) => {
        output += text
        const pid = /Receiver: .*\(process (\d+)\)[^]*call/.exec(output)?.[1]
        if (pid !== undefined) resolve(Number(pid))
      })
      child.on("exit", () => reject(new Error(`ended too early:\n${output}`)))
    })
    onTestFinished(() => removeFiles(output))
    assert.isTrue(isAlive(receiver))
    child.kill("SIGINT")
    assert.strictEqual(await exited, 130)
    assert.isFalse(isAlive(receiver))
  })
})

describe("EX-1 quickstart, changed for the worse", () => {
  requireBuild()
  const copies: Array<string> = []
  afterAll(() => Promise.all(copies.map((copy) => rm(copy, { recursive: true }))))

  /** Runs a copy of the example in which one text of the receiver is another one. */
  const runWith = async (text: string, other: string) => {
    await mkdir(join(root, ".generated"), { recursive: true })
    const copy = await mkdtemp(join(root, ".generated", "quickstart-"))
    copies.push(copy)
    await cp(quickstart, copy, { recursive: true })
    const file = join(copy, "receiver.ts")
    const source = await readFile(file, "utf8")
    assert.include(source, text)
    await writeFile(file, source.replace(text, other))
    const result = await run("node", [relative(root, join(copy, "main.ts"))])
    onTestFinished(() => removeFiles(result.output))
    assert.strictEqual(result.code, 1, result.output)
    return result.output
  }

  it("L5 a receiver with another answer is noticed", { timeout }, async () => {
    const output = await runWith("JSON.stringify(transcript)", "JSON.stringify(transcript.slice(0, -1))")
    assert.match(output, /QuickstartFailed: The transcripts differ/)
  })

  it("RT-5 a wrong token calls no tool", { timeout }, async () => {
    const output = await runWith(`Config.Redacted("TOOLS_TOKEN")`, `Config.Redacted("HOME")`)
    assert.match(output, /failure get_order, \d+ ms: remote_unavailable: /)
    assert.match(output, /QuickstartFailed: The receiver ended with code 1/)
  })

  it("RT-5 a context is a claim", { timeout }, async () => {
    const output = await runWith("{ context }))", `{ context: { tenant: "Somebody Else" } }))`)
    assert.match(output, /failure get_order, \d+ ms: \w+: .*not a tenant of this server/)
    assert.match(output, /QuickstartFailed: The receiver ended with code 1/)
  })
})
