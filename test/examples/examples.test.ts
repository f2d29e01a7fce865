import { assert, describe, it } from "@effect/vitest"
import { readdirSync } from "node:fs"
import { join } from "node:path"
import { requireBuild, root, run } from "../package/run.ts"

/** The lines that each example must print, in this order. The quickstart and the chat in the browser have tests of their own. */
const expected: Record<string, ReadonlyArray<string>> = {
  "compose-in-an-app": [
    `ada: 200 {"answer":"Order 42 has been shipped."}`,
    `grace: 200 {"answer":"I find no order 42 of yours."}`
  ],
  "swap-layers-in-tests": [
    "ok  fakes behind the tools, a script in place of the model",
    "ok  ten seconds of timeout on the test clock",
    "ok  the real weather service is kept off the network"
  ],
  "recorded-model": [
    "(the tool answers: ",
    "Harbour master: You can leave Lisbon with the high tide at 14:20.",
    "Harbour master: Leave Porto at 14:20 as well: the tide is 3.1 m then."
  ],
  "decode-untrusted": [
    "not JSON is refused: PayloadError, NotJson",
    "9 MB of text is refused: PayloadError, TooLarge",
    "100,000 brackets is refused: PayloadError, TooDeep",
    "a key that pollutes prototypes is refused: PayloadError, ForbiddenKey",
    "a version of tomorrow is refused: PayloadError, UnsupportedVersion",
    "wrong types, all of them is refused: PayloadError, Invalid",
    "at /extra:",
    "at /instructions:",
    "at /max_steps:",
    "a tool that every object has is refused: PayloadError, ForbiddenKey",
    "a reference to elsewhere is refused: PayloadError, Invalid",
    "a secret in plain sight is refused: AgentError, DefinitionInvalid",
    "a tool that is not offered is refused: BindError, UnknownTool",
    "a tool under false pretences is refused: BindError, ContractMismatch",
    "a model that is not offered is refused: AgentError, ModelRegistryFailed",
    "an option nobody declared is refused: AgentError, ModelRegistryFailed",
    "an honest one is accepted",
    "It answers: It is shipped."
  ],
  "custom-runtime": [
    "get_order: success",
    "get_order: not_recorded",
    "cancel_order: denied",
    "Order 42 is shipped, so I left it alone."
  ],
  "structured-output": [
    "Wind & Wetter GmbH wants 398 EUR until 2027-03-01",
    "InvalidOutput",
    "/total/amount: expected number, got string",
    "/total/currency: expected a required value, got nothing"
  ],
  fleet: [
    "A fleet on SQLite",
    "You: Where is parcel 7?",
    "Clerk: Parcel 7 is in Lisbon.",
    "You: Where is parcel 8?",
    " runs track 8)",
    " is killed)",
    " runs track 8)",
    "Clerk: Parcel 8 is in Lisbon.",
    " is back)",
    "You: Then refund parcel 8, please.",
    " runs refund 8)",
    " is killed)",
    "Clerk: I do not know whether parcel 8 was refunded. A person will look.",
    "events, none missing, none twice)"
  ],
  mcp: [
    "Tools: shop/find_order, shop/refund, shop/advise",
    "shop/find_order -> validation_error",
    `shop/find_order -> {"id":"42","total":25}`,
    `shop/advise: {"progress":2,"message":"find_order: started"}`,
    `shop/advise -> "Yes: it is below 30 EUR."`,
    `May shop/refund run with {"id":"42"}? Yes.`,
    `shop/refund -> "order 42 is paid back"`,
    "You have your 25 EUR back."
  ],
  approval: [
    "(get_balance runs)",
    `May I refund {"customer":"Ada","amount":250}?`,
    "Yes.",
    "(refund runs)",
    "Ada has her money.",
    "The same decision, delivered again: InvalidDecision",
    "No, she was paid already.",
    "I told Ada why not."
  ],
  chat: [
    "Assistant: Hello, Ada.",
    "(reads the log of parcel 7)",
    "(asks the courier about parcel 7)",
    "Assistant: Parcel 7 was left with the neighbour. The courier confirms it.",
    "(reads the log of parcel 8)",
    "(asks the courier about parcel 8)",
    "(the process was killed)",
    "You: Hello, I am Ada.",
    "Assistant: Hello, Ada.",
    "You: And parcel 8?",
    "Assistant: Parcel 8 was left with the neighbour. The courier did not answer.",
    "Assistant: You are welcome."
  ],
  "plan-research": [
    "characters of JSON",
    `effects: In short: ["Effects are lazy.","Effects are values."]`,
    `(3 steps; hits: {"items":["Effects are values.","Effects are lazy."]})`,
    "comonads: Nothing is known of comonads.",
    `(3 steps; hits: {"items":[]})`
  ],
  "plan-triage": [
    "triage -> urgent",
    "urgent -> archive (rejoins)",
    "spam is skipped",
    "Somebody is called about: The server is on fire (archived)",
    "triage -> spam",
    "Dropped. (archived)",
    "triage -> normal",
    "A ticket is opened: My password does not work (archived)"
  ],
  "plan-fan-out": [
    "[geology]\nIt is granite.\n\n[history]\nhistory knows it well.\n\n[biology]\nbiology knows it well.",
    "geology: at once",
    "history: at attempt 2",
    `{"inputTokens":400,"outputTokens":40}`
  ],
  "plan-approval": [
    "A process begins.",
    `May I pay {"invoice":"7","amount":250}? (asks pay)`,
    "Another process: yes.",
    "(pays 250 for 7)",
    "Filed: Invoice 7 over 250 EUR - Invoice 7 is paid.",
    "Another process: no.",
    "Filed: Invoice 7 over 250 EUR - Nobody paid invoice 7."
  ],
  "plan-loop": [
    `expected to end within 6 iterations, found that "review" would be next`,
    "(done so far: brief, write, review, write, review, write)",
    "DRAFT 4: VALUES, NOT VOWS (10 iterations)"
  ],
  telemetry: [
    "Order 42 has been shipped.",
    "invoke_agent support [shop] 410 43",
    "  chat gpt-5.2 [shop] 100 10",
    "  execute_tool translate [shop]",
    "    invoke_agent translator [shop] 40 5",
    "      chat claude-sonnet [shop] 40 5",
    "  execute_tool find_order [shop] not_found",
    "    POST [shop]",
    "      POST [orders]",
    "        query orders [orders]",
    "  chat gpt-5.2 [shop] 150 8"
  ],
  workflow: [
    "A process begins.",
    "(get_order begins)",
    "(get_order ends)",
    "(reserve begins) (the process is killed)",
    "A process begins.",
    "May I refund 25 EUR?",
    "A process begins.",
    "(refund begins)",
    "(refund ends)",
    "You have your 25 EUR back."
  ],
  "sub-agent": [
    "writer starts",
    `calls research {"input":"How high is Mont Blanc?"}`,
    "    researcher starts",
    `    calls search {"words":"Mont Blanc"}`,
    "    search says",
    "    answer: 4,806 m, as of 2023.",
    "research says 4,806 m, as of 2023.",
    `answer: Mont Blanc rises to 4,806 m. ({"inputTokens":340,"outputTokens":35})`
  ]
}

/** Lines that must appear exactly this often. */
const times: Record<string, Record<string, number>> = {
  // A refund runs once, and only after the yes
  approval: { "(refund runs)": 1, "(get_balance runs)": 1 },
  // The next process makes no call again: one was stored, and the other was cut off
  chat: { "(reads the log of parcel 8)": 1, "(asks the courier about parcel 8)": 1 },
  // No call that had begun is made twice
  workflow: { "(get_order begins)": 1, "(reserve begins)": 1, "(refund begins)": 1 },
  // Paid once, after the yes; the invoice is not read again
  "plan-approval": { "(pays 250 for 7)": 1 },
  // The call that was lost with its runner is not repeated
  fleet: { " runs refund 8)": 1 },
  // No secret is repeated
  "decode-untrusted": { "sk-123": 0 }
}

const planCites = Object.fromEntries(
  ["research", "triage", "fan-out", "approval", "loop"].map((name) => [`plan-${name}`, "PLAN-10 "])
)

const cites: Record<string, string> = {
  approval: "TOOL-7 ",
  chat: "KEEP-9 ",
  "decode-untrusted": "L2 ",
  fleet: "DUR-9 ",
  telemetry: "OTEL-2 ",
  workflow: "DUR-6 ",
  ...planCites
}

const assertInOrder = (output: string, parts: ReadonlyArray<string>) => {
  let from = 0
  for (const part of parts) {
    const at = output.indexOf(part, from)
    assert.isAtLeast(at, 0, `${JSON.stringify(part)} is missing, or stands too early, in:\n${output}`)
    from = at + part.length
  }
}

describe("EX-1 examples", () => {
  requireBuild()

  it("EX-1 all are tested, and listed by npm run example", async () => {
    const names = readdirSync(join(root, "examples")).toSorted()
    assert.deepStrictEqual([...Object.keys(expected), "quickstart", "web-chat"].toSorted(), names)
    const { code, output } = await run("node", ["scripts/example.ts"])
    assert.strictEqual(code, 1)
    assert.include(output, names.join(", "))
  })

  for (const [name, parts] of Object.entries(expected)) {
    it(`EX-1 ${cites[name] ?? ""}${name}`, async () => {
      const { code, output } = await run("node", [`examples/${name}/main.ts`])
      assert.strictEqual(code, 0, output)
      assertInOrder(output, parts)
      for (const [part, count] of Object.entries(times[name] ?? {})) {
        assert.strictEqual(
          output.split(part).length - 1,
          count,
          `how often ${JSON.stringify(part)} stands in:\n${output}`
        )
      }
    })
  }
})
