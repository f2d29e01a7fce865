import { assert, describe } from "@effect/vitest"
import { Effect } from "effect"
import { collector } from "../agent/collector.ts"
import { requireBuild, run } from "../package/run.ts"
import { test } from "../test.ts"

describe("OTEL-2 the example telemetry", () => {
  requireBuild()

  test.live(
    "OTEL-2 exports one trace of all services, with metrics, to the collector of the environment",
    function* () {
      const to = yield* collector
      const variable = `OTEL_EXPORTER_OTLP_ENDPOINT=${to.url}`
      const { code, output } = yield* Effect.promise(() => run("env", [variable, "node", "examples/telemetry/main.ts"]))
      assert.strictEqual(code, 0, output)
      assert.strictEqual(output.trim(), "Order 42 has been shipped.")
      const spans = to.spans()
      assert.strictEqual(new Set(spans.map(({ traceId }) => traceId)).size, 1)
      const lines = spans.map(({ path, service }) => `${String(service)}: ${path.join(" > ")}`)
      const started = "invoke_agent support"
      const inside = `${started} > execute_tool find_order`
      assert.deepStrictEqual(lines.toSorted(), [
        ...["", " > query orders"].flatMap((rest) => Array(2).fill(`orders: ${inside} > POST > POST${rest}`)),
        `shop: ${started}`,
        ...Array(3).fill(`shop: ${started} > chat gpt-5.2`),
        ...["", " > POST"].flatMap((rest) => Array(2).fill(`shop: ${inside}${rest}`)),
        `shop: ${started} > execute_tool translate`,
        `shop: ${started} > execute_tool translate > invoke_agent translator`,
        `shop: ${started} > execute_tool translate > invoke_agent translator > chat claude-sonnet`
      ])
      const support = spans.find(({ name }) => name === started)?.attributes
      assert.strictEqual(support?.["gen_ai.usage.input_tokens"], 410)
      assert.strictEqual(support?.["emissary.run.outcome"], "Completed")
      const ofShop = spans.filter(({ service }) => service === "shop")
      assert.deepStrictEqual(
        [...new Set(ofShop.map(({ attributes }) => attributes["gen_ai.conversation.id"]))],
        ["chat_7"]
      )
      assert.deepStrictEqual(
        ofShop.filter(({ isError }) => isError).map(({ attributes, name }) => [name, attributes["error.type"]]),
        [["execute_tool find_order", "not_found"]]
      )
      assert.includeMembers(
        [...to.metrics()],
        [
          "gen_ai.client.token.usage {token}",
          "gen_ai.client.operation.duration s",
          "gen_ai.execute_tool.duration s",
          "gen_ai.invoke_agent.duration s"
        ]
      )
      assert.notInclude(to.text(), "Bestellung")
    }
  )
})
