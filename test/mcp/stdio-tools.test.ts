import { NodeServices } from "@effect/platform-node"
import { assert, describe, layer } from "@effect/vitest"
import { Effect, Layer, Schedule, Stream } from "effect"
import { ChildProcess } from "effect/process"
import { Run, ToolResult } from "effect-emissary"
import { McpTools } from "effect-emissary/mcp"
import { fileURLToPath } from "node:url"
import { failsFor } from "../outcomes.ts"
import { test } from "../test.ts"
import { logged } from "../logged.ts"
import { agent, calling, results, runCalls, typeOf, valueOf } from "./support.ts"

const script = fileURLToPath(new URL("./fixtures/sdk-server.ts", import.meta.url))
const server = (...args: ReadonlyArray<string>) => ChildProcess.make(process.execPath, [script, ...args])

const servers = (options: McpTools.ServerOptions, ...args: ReadonlyArray<string>) =>
  McpTools.layer({ demo: { command: server(...args), ...options } }).pipe(Layer.provide(NodeServices.layer))

describe("MCP-1 a server of the official SDK over standard streams", () => {
  layer(servers({ approval: "never" }, "bad"), { excludeTestServices: true })((it) => {
    it.effect("MCP-1 L2 its tools are listed, and bad ones are left out by name", () =>
      Effect.gen(function* () {
        const tools = yield* McpTools.toolkit
        assert.deepStrictEqual(
          tools.map(({ name }) => name),
          "echo picture sum fail steps crash exit hang seen change large lookahead"
            .split(" ")
            .map((name) => `demo/${name}`)
        )
        const refused = yield* McpTools.refusedTools
        assert.deepStrictEqual(
          refused.map(({ tool }) => tool),
          ["two\nlines", "hidden", "cyclic", "echo", "untyped", "", "as-task"]
        )
        assert.match(refused[2]?.problem ?? "", /a reference that consumes a part/)
      })
    )

    it.effect("MCP-1 arguments, results of all kinds, and failures", () =>
      Effect.gen(function* () {
        const [echo, tooLong, picture, sum, misfit, fail] = yield* runCalls(
          ["echo", { text: "hi" }],
          ["echo", { text: "x".repeat(21) }],
          ["picture"],
          ["sum", { a: 1, b: 2 }],
          ["sum", { a: 100, b: 2 }],
          ["fail"]
        )
        assert.deepStrictEqual(echo, ToolResult.success("hi"))
        assert.strictEqual(typeOf(tooLong), "validation_error")
        assert(picture !== undefined)
        assert.deepStrictEqual(ToolResult.content(picture), [
          ToolResult.textPart("Look:"),
          ToolResult.filePart({ mediaType: "image/png", data: "AQID" }),
          ToolResult.filePart({ mediaType: "audio/wav", data: "BAUG" }),
          ToolResult.textPart("a note"),
          ToolResult.filePart({ mediaType: "application/pdf", data: "BwgJ", fileName: "file:///a.pdf" }),
          ToolResult.textPart("x: https://example.com/x\nA link")
        ])
        assert.deepStrictEqual(sum, ToolResult.success({ sum: 3 }))
        assert(misfit !== undefined)
        assert.match(ToolResult.text(misfit), /does not fit its output schema: .*sum/)
        assert.deepStrictEqual(fail, {
          ...ToolResult.failure("execution_error", "No such order"),
          content: [ToolResult.textPart("No such order")]
        })
      })
    )

    it.effect("MCP-1 progress is ToolProgress", () =>
      Effect.gen(function* () {
        const events = yield* Effect.provide(Stream.runCollect(agent.stream("Go")), calling(["steps"]))
        assert.deepStrictEqual(
          events.flatMap((event) => (event._tag === "ToolProgress" ? [event.result] : [])),
          [1, 2].map((progress) =>
            ToolResult.success({ progress, total: 2, message: `step ${progress}` }, [
              ToolResult.textPart(`step ${progress}`)
            ])
          )
        )
      })
    )

    it.effect("MCP-1 a call that takes too long is cancelled at the server", () =>
      Effect.gen(function* () {
        const late = agent.run("Go", { timeouts: { tool: "200 millis" } })
        const { conversation } = yield* Effect.provide(late, calling(["hang"]))
        assert.strictEqual(typeOf(results(conversation)[0]), "timeout_error")
        const [seen] = yield* runCalls(["seen"])
        assert.match(String(valueOf(seen)), /hang cancelled/)
      })
    )

    it.effect("MCP-1 a server that dies is started again for the next call, and the call under way is unknown", () =>
      Effect.gen(function* () {
        const [crash, echo] = yield* runCalls(["crash"], ["echo", { text: "back" }])
        assert.strictEqual(typeOf(crash), "remote_unavailable")
        assert.deepStrictEqual(valueOf(crash), { reason: "connection_lost", outcome: "unknown" })
        assert.deepStrictEqual(echo, ToolResult.success("back"))
      })
    )

    it.effect("MCP-1 a server that has ended between two calls is started again, and no call fails", () =>
      Effect.gen(function* () {
        const ended = Effect.gen(function* () {
          const [exit] = yield* runCalls(["exit"])
          assert.strictEqual(valueOf(exit), "bye")
          yield* Effect.sleep("100 millis")
        })
        yield* ended
        assert.deepStrictEqual(yield* runCalls(["echo", { text: "back" }]), [ToolResult.success("back")])
      })
    )

    it.effect("MCP-1 within a run the tools stay: one that changed is refused, and the next run has the new one", () =>
      Effect.gen(function* () {
        const before = yield* McpTools.toolkit
        assert.deepStrictEqual(yield* McpTools.toolkit, before)
        const [changed, echo, seen] = yield* runCalls(["change"], ["echo", { text: "hi" }], ["seen"])
        assert.strictEqual(valueOf(changed), "changed")
        assert.deepStrictEqual(valueOf(echo), { reason: "contract_mismatch", outcome: "not_executed" })
        assert.match(String(valueOf(seen)), /change listed seen$/)
        const after = yield* McpTools.toolkit
        assert.deepStrictEqual(
          after.map((tool, index) => tool === before[index]),
          after.map(({ name }) => name !== "demo/echo" && name !== "demo/sum")
        )
        const [again] = yield* runCalls(["echo", { text: "hi" }])
        assert.deepStrictEqual(again, ToolResult.success("hi"))
      })
    )
  })

  layer(servers({}), { excludeTestServices: true })((it) => {
    it.effect("MCP-1 a call asks for an approval, read-only or not, which a change of the tool ends", () =>
      Effect.gen(function* () {
        const approve = (state: Run.State) => Run.requests(state).filter(Run.isApprovable).map(Run.approve)
        const model = calling(["echo", { text: "hi" }], ["sum", { a: 1, b: 2 }])
        const program = Effect.gen(function* () {
          const echo = yield* agent.run("Go")
          assert(echo.outcome === "AwaitingApproval")
          const sum = yield* agent.resume(echo.state, { decisions: approve(echo.state) })
          assert(sum.outcome === "AwaitingApproval")
          assert.deepStrictEqual(results(sum.conversation), [ToolResult.success("hi")])
          const decisions = approve(sum.state)
          const other = yield* Effect.provide(agent.run("Go"), calling(["change"]))
          yield* Effect.provide(agent.resume(other.state, { decisions: approve(other.state) }), calling())
          const refused = yield* Effect.flip(agent.resume(sum.state, { decisions }))
          assert.match(refused.message, /expected a state of the definition/)
          const { conversation } = sum
          const late = yield* Effect.flip(agent.run(undefined, { conversation, decisions }))
          assert.match(late.message, /its tool have changed/)
          const again = yield* agent.run(undefined, { conversation })
          assert(again.outcome === "AwaitingApproval")
          assert.lengthOf(results(again.conversation), 1)
          assert.notStrictEqual(Run.requests(again.state)[0]?.digest, decisions[0]?.digest)
        })
        yield* Effect.provide(program, model)
      })
    )
  })

  layer(servers({ invalidTools: "fail" }, "bad"), { excludeTestServices: true })((it) => {
    it.effect("MCP-1 a host may fail instead of leaving bad tools out", () =>
      Effect.gen(function* () {
        const error = yield* Effect.flip(McpTools.toolkit)
        assert.match(error.message, /"demo" lists the tool "two\\nlines", which is refused: expected a name/)
      })
    )
  })
})

describe("MEND-3 a program that is no server", () => {
  for (const [what, command, why] of [
    ["that does not exist", ChildProcess.make("no-such-program-of-mcp"), /Cannot spawn MCP server \(ENOENT\)/],
    [
      "that ends at once",
      ChildProcess.make(process.execPath, ["-e", "process.exit(3)"]),
      /MCP process exited \(3\)|closed/
    ]
  ] as const) {
    test.live(`MEND-3 the error of a run names the reason why a program ${what} cannot be used`, function* () {
      const servers = McpTools.layer({ demo: { command, retry: Schedule.recurs(0) } })
      const run = agent
        .run("Go")
        .pipe(Effect.provide(Layer.provide(servers, NodeServices.layer)), Effect.provide(calling()))
      const error = yield* failsFor("PreparationFailed", run)
      assert.match(error.message, /The MCP server "demo" cannot be used: /)
      assert.match(error.message, why)
    })
  }

  test.live("RIGHT-3 each tool that is left out is logged once by server, name and reason", function* () {
    const { layer: logger, lines } = logged()
    yield* Effect.gen(function* () {
      yield* McpTools.toolkit
      yield* McpTools.toolkit
      const refused = (yield* McpTools.refusedTools).map(({ problem, tool }) => [tool, problem] as const)
      assert.lengthOf(refused, 7)
      for (const [tool, problem] of refused) {
        const about = lines.filter((line) => line.includes(`"demo" lists the tool ${JSON.stringify(tool)}, `))
        assert.deepStrictEqual(about, [
          `Warn The MCP server "demo" lists the tool ${JSON.stringify(tool)}, which is refused: ${problem}`
        ])
      }
    }).pipe(Effect.provide(servers({}, "bad")), Effect.provide(logger))
  })
})
