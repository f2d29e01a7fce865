/** The structured output that a model is writing: each part of it is shown as soon as the part is complete and valid. */

import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as SchemaAST from "effect/SchemaAST"
import type { Delta } from "../../conversation/internal/modelMessages.ts"
import * as history from "../../conversation/internal/history.ts"
import { once } from "../../payload/internal/base.ts"
import type { Limits } from "../../payload/internal/limits.ts"
import * as partialJson from "../../payload/internal/partialJson.ts"
import { growAt, lineOf, setAt } from "../../payload/internal/partialValue.ts"
import { defined, isObject, type JsonObject, own } from "../../payload/internal/values.ts"
import type * as AgentError from "../AgentError.ts"
import * as agentOutput from "./agentOutput.ts"
import * as outputParts from "./outputParts.ts"

/** A part of an output with its check. */
interface Part extends partialJson.Shape<Part> {
  readonly output: () => Effect.Effect<agentOutput.Output<unknown>, AgentError.Reason>
}

const noMember = () => undefined

/** `output` is compiled for the first value of the part. */
const makePart = (
  kind: Part["kind"],
  output: Effect.Effect<agentOutput.Output<unknown>, AgentError.Reason>,
  member: Part["member"] = noMember
): Part => {
  let known: agentOutput.Output<unknown> | undefined
  const kept = Effect.tap(output, (made) => Effect.sync(() => void (known = made)))
  return { kind, member, output: () => (known === undefined ? kept : Effect.succeed(known)) }
}

const members = (parts: ReadonlyMap<unknown, () => Part>) => (key: string | number) => parts.get(key)?.()

/** A class has the fields of the struct that it is made of. */
const fieldsOf = (ast: SchemaAST.AST): SchemaAST.AST => {
  const [link, ...others] = ast.encoding ?? []
  return SchemaAST.isDeclaration(ast) && ast.annotations?.["~constructor"] !== undefined && others.length === 0
    ? (link?.to ?? ast)
    : ast
}

/** The parts of an output that is a Schema. What has checks, or is another value as JSON, is whole; the members of a struct are parts. */
const partOfAst = (given: SchemaAST.AST): Part => {
  const output = Effect.suspend(() => agentOutput.outputOf({ output: Schema.make(given) }))
  const ast = fieldsOf(given)
  if (SchemaAST.isSuspend(ast)) return partOfAst(ast.thunk())
  if (ast.encoding !== undefined) return makePart("whole", output)
  if (SchemaAST.isString(ast)) return makePart(ast.checks === undefined ? "string" : "whole", output)
  if (SchemaAST.isObjects(ast) && ast.indexSignatures.length === 0) {
    const fields = ast.propertySignatures.map(({ name, type }) => [name, once(() => partOfAst(type))] as const)
    return makePart("object", output, members(new Map(fields)))
  }
  if (!SchemaAST.isArrays(ast) || ast.rest.length > 1) return makePart("whole", output)
  const items = [...ast.elements, ...ast.rest].map((type) => once(() => wholeOf(type)))
  return makePart("array", output, (index) => (items[Number(index)] ?? items[ast.elements.length])?.())
}

const wholeOf = (ast: SchemaAST.AST): Part => ({ ...partOfAst(ast), kind: "whole" })

/** Keywords of a text that may grow. */
const ofText = new Set(["type", "title", "description", "default", "examples"])

/** The same of an output that is data. */
const partOfJson = (json: JsonObject, root: JsonObject, depth = 0): Part => {
  const { $defs, definitions } = root
  const output = agentOutput.outputOfJson({ ...json, ...defined({ $defs, definitions }) })
  const [, kind, name = ""] = /^#\/(\$defs|definitions)\/([^/~%]+)$/.exec(String(json["$ref"])) ?? []
  const defs = kind === undefined ? undefined : own(root, kind)
  const named = isObject(defs) ? own(defs, name) : undefined
  if (isObject(named) && depth < 16) return partOfJson(named, root, depth + 1)
  const { items, properties, type } = json
  const parts = (of: Schema.Json) => () => partOfJson(isObject(of) ? of : {}, root)
  if (type === "string" && Object.keys(json).every((key) => ofText.has(key))) return makePart("string", output)
  if (type === "object" && isObject(properties)) {
    const fields = Object.entries(properties).map(([key, of]) => [key, once(parts(of))] as const)
    return makePart("object", output, members(new Map(fields)))
  }
  if (type !== "array" || !isObject(items) || json["prefixItems"] !== undefined) return makePart("whole", output)
  const item = once((): Part => ({ ...parts(items)(), kind: "whole" }))
  return makePart("array", output, item)
}

/** The shape of an output, which is an item of an object where the output is no object itself. */
const partsOf = (self: agentOutput.StructuredOutput<unknown>) => {
  const part = self.source === undefined ? partOfJson(self.schema.json, self.schema.json) : partOfAst(self.source.ast)
  const isWrapped = self.offered !== self.schema
  const wrapper = makePart("object", Effect.succeed(self), (key) => (key === agentOutput.wrapperKey ? part : undefined))
  return { part, isWrapped, wrapper }
}

const known = new WeakMap<agentOutput.StructuredOutput<unknown>, ReturnType<typeof partsOf>>()

/** The output in the answer of one attempt. */
class PartialOutput {
  private readonly reader: partialJson.PartialJson<Part>
  private readonly isWrapped: boolean
  private readonly outputTool: string | undefined
  private index = -1
  private value: unknown
  /** Lists with an item that does not fit. */
  private readonly refused = new Set<string>()

  constructor(self: agentOutput.StructuredOutput<unknown>, outputTool: string | undefined, limits: Limits) {
    const parts = known.get(self) ?? partsOf(self)
    known.set(self, parts)
    const { isWrapped, part, wrapper } = parts
    const whole = (bracket: string) => (part.kind === (bracket === "{" ? "object" : "array") ? part : undefined)
    this.reader = new partialJson.PartialJson(
      (bracket) => (isWrapped && bracket === "{" ? wrapper : whole(bracket)),
      limits
    )
    this.isWrapped = isWrapped
    this.outputTool = outputTool
  }

  /** The parts that deltas of the answer complete. */
  readonly add = Effect.fnUntraced({ self: this }, function* (this: PartialOutput, deltas: ReadonlyArray<Delta>) {
    const shown: Array<outputParts.Shown> = []
    for (const delta of deltas) {
      const { _tag, index } = delta
      if (_tag === "ReasoningDelta" || (_tag === "CallDelta" && delta.name !== this.outputTool)) continue
      if (index !== this.index) this.reader.restart()
      this.index = index
      let lines = ""
      for (const piece of this.reader.add(delta.delta)) lines += yield* this.take(piece)
      if (lines !== "") shown.push({ index, delta: lines, value: this.value })
    }
    return shown
  })

  private readonly take = Effect.fnUntraced(
    { self: this },
    function* (this: PartialOutput, piece: partialJson.Piece<Part>) {
      const [first, ...rest] = piece.path
      const path = this.isWrapped && first === agentOutput.wrapperKey ? rest : piece.path
      if ("text" in piece) {
        const text = piece.text.toWellFormed()
        this.value = growAt(this.value, path, text)
        return lineOf(path, text, 1)
      }
      if (!("value" in piece)) {
        this.value = undefined
        this.refused.clear()
        return lineOf(path)
      }
      const isItem = typeof path.at(-1) === "number"
      const list = isItem ? JSON.stringify(path.slice(0, -1)) : ""
      if (isItem && this.refused.has(list)) return ""
      const checked =
        piece.shape === undefined
          ? { value: piece.value, decoded: piece.value }
          : yield* agentOutput.decodePart(yield* Effect.option(piece.shape.output()), history.mend(piece.value))
      if (checked === undefined) {
        if (isItem) this.refused.add(list)
        return ""
      }
      this.value = setAt(this.value, path, checked.decoded)
      return lineOf(path, checked.value)
    }
  )
}

/** Services with which runs show their output while it arrives. */
export const shownIn = <R>(services: Context.Context<R>): Context.Context<R> =>
  Context.add(services, outputParts.OutputParts, (...args) => new PartialOutput(...args))
