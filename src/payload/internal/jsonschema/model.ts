import type * as Schema from "effect/Schema"
import type { LinearPattern } from "./patterns.ts"
import type { Location } from "./location.ts"
import type { Run } from "./run.ts"

/** Which parts of one value in-place subschemas have looked at. */
export interface Evaluated {
  readonly keys: Set<string>
  readonly items: Set<number>
  allKeys: boolean
  allItems: boolean
}

/** One assertion of a schema: true when the value has what it asks for. */
export type Assertion = (
  value: Schema.Json,
  at: Location | undefined,
  run: Run,
  evaluated: Evaluated | undefined
) => boolean

/** Facts about the properties a schema names, for the interpreter and for defaults. */
export interface ObjectShape {
  readonly properties: ReadonlyMap<string, Node>
  readonly patterns: ReadonlyArray<readonly [pattern: LinearPattern, node: Node]>
  readonly additional: Node | undefined
  readonly required: ReadonlySet<string>
  readonly unevaluatedForbidden: boolean
  /** Schemas that apply when a property is there. */
  readonly dependent: ReadonlyArray<readonly [key: string, node: Node]>
}

/** Facts about the items a schema names. */
export interface ArrayShape {
  readonly prefix: ReadonlyArray<Node>
  readonly rest: Node | undefined
}

/** A group of alternatives of a schema. */
export interface Choice {
  readonly keyword: "anyOf" | "oneOf"
  readonly branches: ReadonlyArray<Node>
}

export interface Conditional {
  readonly if: Node
  readonly then: Node | undefined
  readonly else: Node | undefined
}

/** One schema of the document, ready to run. Filled in two passes, because references may point forward. */
export interface Node {
  readonly pointer: string
  /** A boolean schema: accepts all or nothing. */
  readonly always: boolean | undefined
  /** The kinds `type` admits, as bits. */
  kinds: number
  assertions: ReadonlyArray<Assertion>
  /** All assertions but `unevaluated*`. */
  applied: ReadonlyArray<Assertion>
  /** Whether `unevaluatedProperties` or `unevaluatedItems` stands here. */
  readonly tracks: boolean
  readonly object: ObjectShape | undefined
  readonly array: ArrayShape | undefined
  readonly choices: ReadonlyArray<Choice>
  readonly conditional: Conditional | undefined
  readonly allOf: ReadonlyArray<Node>
  reference: Node | undefined
  readonly default: Schema.Json | undefined
  /** What applies to every value of this schema: itself, its reference and its `allOf`, all the way. Known on first use. */
  closure: ReadonlyArray<Node> | undefined
  /** The default once it was found to fit its schema; `"none"` when it does not. */
  filled: { readonly value: Schema.Json } | "none" | "pending" | undefined
}
