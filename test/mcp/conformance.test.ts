/** The official conformance suite of MCP against a server and a client of ours, each a process. It uses the loopback only. */
import { assert, describe } from "@effect/vitest"
import { Effect } from "effect"
import { execFile, spawn } from "node:child_process"
import { createInterface } from "node:readline"
import { fileURLToPath } from "node:url"
import { stripVTControlCharacters } from "node:util"
import { test } from "../test.ts"

const pathOf = (path: string) => fileURLToPath(new URL(path, import.meta.url))

const suite = pathOf("../../node_modules/@modelcontextprotocol/conformance/dist/index.js")

/** The output of the suite. Its exit code counts the scenarios that do not apply. */
const run = (...args: ReadonlyArray<string>) =>
  Effect.callback<string>((resume) => {
    const child = execFile(process.execPath, [suite, ...args], (_, stdout, stderr) =>
      resume(Effect.succeed(stripVTControlCharacters(stdout + stderr)))
    )
    return Effect.sync(() => child.kill())
  })

const server = Effect.acquireRelease(
  Effect.sync(() =>
    spawn(process.execPath, [pathOf("./fixtures/conformance-server.ts")], { stdio: ["ignore", "pipe", "inherit"] })
  ),
  (child) => Effect.sync(() => child.kill())
).pipe(
  Effect.flatMap(({ stdout }) =>
    Effect.callback<string>((resume) => {
      createInterface(stdout).once("line", (url) => resume(Effect.succeed(url)))
    })
  )
)

const applicable = [
  "server-initialize",
  "ping",
  "tools-list",
  "tools-call-simple-text",
  "tools-call-image",
  "tools-call-audio",
  "tools-call-embedded-resource",
  "tools-call-mixed-content",
  "tools-call-error",
  "tools-call-with-progress",
  "tools-call-elicitation",
  "server-sse-multiple-streams",
  "dns-rebinding-protection",
  "json-schema-2020-12"
]

/** `McpToolServer` registers tools only. What else a server has comes from `McpServer` of `effect/ai`. */
const notApplicable: Record<string, string> = {
  "completion-complete": "completes arguments of prompts and resources",
  "tools-call-with-logging": "a tool of ours logs to the log of the server, not to the client",
  "tools-call-sampling": "an agent has a model of its own, and asks the client for none",
  "elicitation-sep1034-defaults":
    "the only form that the server sends is the one of an approval, which has no defaults",
  "elicitation-sep1330-enums": "the only form that the server sends is the one of an approval, which has no choices",
  "resources-read-text": "reads resources",
  "resources-read-binary": "reads resources",
  "resources-templates-read": "reads resources",
  "resources-subscribe": "subscribes to resources",
  "resources-unsubscribe": "subscribes to resources",
  "prompts-get-simple": "gets prompts",
  "prompts-get-with-args": "gets prompts",
  "prompts-get-embedded-resource": "gets prompts",
  "prompts-get-with-image": "gets prompts"
}

/** These pass as well, of a server without what they are about. */
const empty = ["logging-set-level", "resources-list", "prompts-list", "server-sse-polling"]

describe("MEND-3 the official conformance suite of MCP", () => {
  test.live("MEND-3 a server of McpToolServer passes all scenarios that apply", function* () {
    const printed = yield* run("server", "--url", yield* server, "--suite", "all")
    const results = Array.from(printed.matchAll(/^([✓✗]) ([\w-]+): (\d+) passed, (\d+) failed/gm), (match) => ({
      name: match[2] ?? "",
      isPassed: match[1] === "✓" && Number(match[4]) === 0,
      checks: Number(match[3])
    }))
    const namesOf = (isPassed: boolean) =>
      results.flatMap((result) => (result.isPassed === isPassed ? [result.name] : [])).sort()
    assert.deepStrictEqual(namesOf(true), [...applicable, ...empty].sort(), printed.slice(-5000))
    assert.deepStrictEqual(namesOf(false), Object.keys(notApplicable).sort())
    for (const { checks, name } of results) if (applicable.includes(name)) assert.isAbove(checks, 0, name)
  })

  // The others do not apply: 22 are about OAuth, which McpTools leaves to the host, and one about elicitation, which it refuses
  const scenarios: Record<string, Array<string>> = {
    initialize: ["mcp-client-initialization"],
    tools_call: ["tool-add-numbers"],
    "sse-retry": ["client-sse-graceful-reconnect", "client-sse-retry-timing", "client-sse-last-event-id"]
  }

  test.live("MEND-3 a client of McpTools passes all scenarios that apply", function* () {
    const command = `${process.execPath} ${pathOf("./fixtures/conformance-client.ts")}`
    const passed = Effect.fnUntraced(function* (scenario: string) {
      const printed = yield* run("client", "--command", command, "--scenario", scenario)
      const checks = Array.from(printed.matchAll(/\[([\w-]+) *\] (SUCCESS|WARNING|FAILURE)/g))
      return checks.map(([, name = "", status]) => {
        // A busy machine is late. http-tools.test.ts proves the wait with a clock of its own
        const isLate = name === "client-sse-retry-timing" && /reconnected (?:slightly|very) late/.test(printed)
        return status === "SUCCESS" || isLate ? name : `${name}: ${printed}`
      })
    })
    const results = yield* Effect.forEach(Object.keys(scenarios), passed, { concurrency: "unbounded" })
    assert.deepStrictEqual(results, Object.values(scenarios))
  })
})
