import { Schema } from "effect"

const named = <S extends Schema.Top>(schema: S, identifier: string) => schema.annotate({ identifier })

/** The types of the recordings' registry, by name. */
export const types: { readonly [name: string]: Schema.Codec<unknown, Schema.Json> } = {
  str: Schema.String,
  Hits: named(Schema.Struct({ items: Schema.Array(Schema.String) }), "Hits"),
  Tri: named(Schema.Struct({ severity: Schema.NullOr(Schema.Literals(["urgent", "normal", "spam"])) }), "Tri"),
  Kb: named(Schema.Struct({ kind: Schema.Literal("b") }), "Kb"),
  KbOpt: named(Schema.Struct({ kind: Schema.NullOr(Schema.Literal("b")) }), "KbOpt"),
  KbGhost: named(Schema.Struct({ kind: Schema.Literals(["b", "ghost"]) }), "KbGhost"),
  Kstr: named(Schema.Struct({ kind: Schema.String }), "Kstr"),
  Kint: named(Schema.Struct({ kind: Schema.Literals([1, 2]) }), "Kint"),
  Kp1: named(Schema.Struct({ kind: Schema.Literal("p1") }), "Kp1"),
  Other: named(Schema.Struct({ y: Schema.Int }), "Other")
}
