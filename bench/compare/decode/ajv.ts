import { Ajv2020 } from "ajv/dist/2020.js"
import { makeRow, types } from "./document.ts"

const text = { type: "string" }
const number = { type: "number" }
const record = { type: "object" }
const node = { $ref: "#/$defs/node" }

const check = new Ajv2020({ strict: false }).compile({
  $defs: {
    node: {
      type: "object",
      properties: {
        type: { anyOf: [{ enum: types }, { type: "array", items: { enum: types } }] },
        description: text,
        enum: { type: "array", items: { type: ["string", "number", "boolean", "null"] } },
        properties: { type: "object", additionalProperties: node },
        required: { type: "array", items: text },
        items: node,
        additionalProperties: { anyOf: [{ type: "boolean" }, node] },
        minimum: number,
        maximum: number,
        minLength: number,
        maxLength: number
      }
    }
  },
  type: "object",
  properties: {
    schema_version: { const: 1 },
    riffer_version: text,
    identifier: text,
    model: text,
    instructions: { type: ["string", "null"] },
    model_options: record,
    provider_options: record,
    max_steps: { type: "integer", minimum: -1 },
    structured_output: { anyOf: [{ type: "null" }, node] },
    tools: {
      type: "array",
      items: {
        type: "object",
        properties: {
          name: text,
          description: text,
          parameters_schema: node,
          timeout: { type: ["number", "null"] }
        },
        required: ["name", "description", "parameters_schema", "timeout"]
      }
    }
  },
  required: [
    "schema_version",
    "riffer_version",
    "identifier",
    "model",
    "instructions",
    "model_options",
    "provider_options",
    "max_steps",
    "structured_output",
    "tools"
  ]
})

export const make = makeRow((input) => {
  const value: unknown = JSON.parse(input)
  if (!check(value)) throw new Error("invalid")
  return value
})
