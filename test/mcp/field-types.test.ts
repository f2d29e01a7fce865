import { assert, describe } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { FetchHttpClient } from "effect/http"
import { Agent } from "effect-emissary"
import { McpTools } from "effect-emissary/mcp"
import { ScriptedModel } from "effect-emissary/testing"
import { call, throughJson } from "../agent/fixtures.ts"
import { decide } from "../decisions.ts"
import { logged } from "../logged.ts"
import { endsAs } from "../outcomes.ts"
import { test } from "../test.ts"
import { fields, serveFields } from "./fixtures/zod-fields.ts"
import { agent, results } from "./support.ts"

const served = Layer.unwrap(
  Effect.map(
    Effect.acquireRelease(
      Effect.promise(() => serveFields()),
      ({ close }) => Effect.sync(close)
    ),
    ({ url }) => McpTools.layer({ demo: { url, approval: "never" } })
  )
).pipe(Layer.provide(FetchHttpClient.layer))

const names = Object.keys(fields)

describe("RIGHT-3 the field types of zod 4.6, from a server of the official SDK", () => {
  test.live("RIGHT-3 no tool is lost, and each pattern that is not checked is logged once", function* () {
    const { layer, lines } = logged()
    const list = Effect.gen(function* () {
      const tools = yield* McpTools.toolkit
      assert.deepStrictEqual(yield* McpTools.refusedTools, [])
      assert.deepStrictEqual(
        tools.map(({ name }) => name),
        names.map((name) => `demo/${name}`)
      )
    })
    assert.isAtLeast(names.length, 95)
    yield* Effect.andThen(list, list).pipe(Effect.provide(served), Effect.provide(layer))
    const unchecked = lines.filter((line) => line.includes("is not checked here"))
    assert.strictEqual(new Set(unchecked).size, unchecked.length)
    assert.lengthOf(unchecked, lines.length)
    const about = unchecked.filter((line) => line.includes('"demo/regexLookAhead"'))
    assert.lengthOf(about, 1)
    assert.match(about[0] ?? "", /at \/properties\/field\/pattern/)
    for (const name of ["string", "cuid2", "startsWith", "isoDate"]) {
      assert.isFalse(
        unchecked.some((line) => line.includes(`"demo/${name}"`)),
        name
      )
    }
  })

  test.live("RIGHT-3 each takes a value of its type, which the server receives", served, function* () {
    const called = Object.entries(fields).filter(([, [, field]]) => field !== undefined)
    const toolCalls = called.map(([name, [, field]]) => call(name, `demo/${name}`, { field: field as never }))
    const run = agent.run("Go").pipe(Effect.provide(ScriptedModel.layer([{ toolCalls }, { text: "done" }])))
    const got = results((yield* run).conversation)
    called.forEach(([name], n) => assert.strictEqual(got[n]?._tag, "Success", `${name}: ${JSON.stringify(got[n])}`))
  })

  test.live(
    "RIGHT-3 a contract keeps such a pattern verbatim, and a document of the agent refuses it by name",
    served,
    function* () {
      const definition = yield* Agent.definition(agent)
      const contract = definition.tools.find(({ name }) => name === "demo/regexLookAhead")
      assert.deepInclude(contract?.parameters["properties"], {
        field: { type: "string", pattern: "^(?=.*\\d)(?=.*[a-z]).{2,}$" }
      })
      const error = yield* Effect.flip(Agent.encode(agent))
      assert.match(String(error), /pattern/)
    }
  )

  test.live("RIGHT-3 a run that waits with such a tool continues from its stored state", function* () {
    const only = ({ name }: McpTools.McpTool) => name === "demo/regexLookAhead"
    const one = Agent.make("a", { toolkit: Effect.map(McpTools.toolkit, (tools) => tools.filter(only)) })
    const { url } = yield* Effect.acquireRelease(
      Effect.promise(() => serveFields()),
      (server) => Effect.sync(server.close)
    )
    const layer = McpTools.layer({ demo: { url } }).pipe(Layer.provide(FetchHttpClient.layer))
    yield* Effect.gen(function* () {
      const waiting = yield* endsAs("AwaitingApproval", one.run("Go"))
      const state = yield* throughJson(waiting.state)
      const last = yield* endsAs("Completed", one.resume(state, { decisions: decide(waiting.state) }))
      assert.strictEqual(results(last.conversation)[0]?._tag, "Success")
    }).pipe(
      Effect.provide(layer),
      Effect.provide(
        ScriptedModel.layer([{ toolCalls: [call("c", "demo/regexLookAhead", { field: "a1" })] }, { text: "done" }])
      )
    )
  })
})
