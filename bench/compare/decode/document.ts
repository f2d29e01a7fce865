/** The definition of an agent with 30 tools, about 40 KB of JSON in version 1 of the wire. */
import assert from "node:assert/strict"

const verbs = ["create", "update", "delete", "search", "fetch", "archive", "approve", "cancel", "export", "assign"]

/** A place in the schema of each tool where a number makes documents differ; the schemas of one document differ, too. */
const mark = "@@"

const tool = (name: string, index: number) => ({
  name,
  description: `${name} in the back office on behalf of the current customer (tool ${index}).`,
  parameters_schema: {
    type: "object",
    properties: {
      customer_id: { type: "string", description: `The customer id, form ${mark} of ${index}` },
      reference: { type: "string", description: "Reference code", minLength: 3, maxLength: 32 },
      quantity: { type: "integer", description: "How many", minimum: 1, maximum: 100 },
      amount: { type: "number", description: "Amount in the account currency" },
      urgent: { type: "boolean", description: "Skip the queue", default: false },
      priority: { type: "string", description: "Priority of the request", enum: ["low", "normal", "high"] },
      tags: { type: "array", description: "Tags", items: { type: "string" } },
      notes: { type: ["string", "null"], description: "Notes for the team" },
      shipping: {
        type: "object",
        description: "Shipping address",
        properties: { street: { type: "string" }, city: { type: "string" }, zip: { type: "string" } },
        required: ["street", "city"],
        additionalProperties: false
      },
      items: {
        type: "array",
        description: "Line items",
        items: {
          type: "object",
          properties: {
            product_id: { type: "integer" },
            quantity: { type: "integer", minimum: 1 },
            notes: { type: "string" }
          },
          required: ["product_id", "quantity"],
          additionalProperties: false
        }
      }
    },
    required: ["customer_id", "quantity", "items"],
    additionalProperties: false
  },
  timeout: index % 3 === 0 ? null : 30
})

const value = {
  schema_version: 1,
  riffer_version: "0.29.1",
  identifier: "support_agent",
  model: "openai/gpt-4o",
  instructions: `You are a support agent. ${"Answer briefly, cite order numbers and never invent one. ".repeat(8)}`,
  model_options: { temperature: 0.2, top_p: 0.9 },
  provider_options: { region: "eu", retries: 2 },
  max_steps: 8,
  structured_output: {
    type: "object",
    properties: { summary: { type: "string" }, resolved: { type: "boolean" } },
    required: ["summary", "resolved"],
    additionalProperties: false
  },
  tools: ["order", "ticket", "invoice"].flatMap((noun, group) =>
    verbs.map((verb, index) => tool(`${verb}_${noun}`, group * verbs.length + index))
  )
}

const pieces = JSON.stringify(value).split(mark)
const invalid = JSON.stringify(value).replace(/"integer"(?!.*"integer")/, "42")

export interface Options {
  /** Each run decodes a document that none has seen. */
  readonly fresh: boolean
}

export type Row = (options: Options) => Promise<() => unknown>

export const types = ["object", "array", "string", "number", "integer", "boolean", "null"] as const

/** A row that decodes, after a check of what it accepts. */
export const makeRow =
  (decode: (text: string) => unknown, validates = true): Row =>
  async ({ fresh }) => {
    let count = 0
    const next = () => pieces.join(String(count++))
    const text = next()
    assert.ok(JSON.stringify(decode(text)).includes("assign_invoice"))
    if (validates) assert.throws(() => decode(invalid))
    return fresh ? () => decode(next()) : () => decode(text)
  }
