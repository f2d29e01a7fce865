import { z } from "zod"
import { makeRow, types } from "./document.ts"

const record = z.record(z.string(), z.unknown())
const type = z.enum(types)

const Node = z.object({
  type: z.union([type, z.array(type)]).optional(),
  description: z.string().optional(),
  enum: z.array(z.union([z.string(), z.number(), z.boolean(), z.null()])).optional(),
  default: z.unknown().optional(),
  get properties() {
    return z.record(z.string(), Node).optional()
  },
  required: z.array(z.string()).optional(),
  get items() {
    return Node.optional()
  },
  get additionalProperties() {
    return z.union([z.boolean(), Node]).optional()
  },
  minimum: z.number().optional(),
  maximum: z.number().optional(),
  minLength: z.number().optional(),
  maxLength: z.number().optional()
})

const Definition = z.object({
  schema_version: z.literal(1),
  riffer_version: z.string(),
  identifier: z.string(),
  model: z.string(),
  instructions: z.string().nullable(),
  model_options: record,
  provider_options: record,
  max_steps: z.number().int().min(-1),
  structured_output: Node.nullable(),
  tools: z.array(
    z.object({
      name: z.string(),
      description: z.string(),
      parameters_schema: Node,
      timeout: z.number().nullable()
    })
  )
})

export const make = makeRow((text) => Definition.parse(JSON.parse(text)))
