import { assert } from "@effect/vitest"
import { Effect, Result } from "effect"
import { Plan } from "effect-emissary/plan"
import { recording } from "../fixtures.ts"
import { registry } from "../load.ts"
import type { Case } from "../vocabulary.ts"

/** Names and numbers that a message has to hold; the recordings quote what they name. */
export const mentions = (message: string, expect: Case["expect"]): void => {
  const names = expect["our message must mention"]
  for (const name of Array.isArray(names) ? names : []) {
    const text = String(name)
    assert(
      message.includes(text) || message.includes(JSON.stringify(text).slice(1, -1)),
      `${JSON.stringify(text)} is not in: ${message}`
    )
  }
}

/** Load and save without any code: arrays and keys in order. */
export const roundtrip = Effect.fnUntraced(function* ({ expect, given }: Case) {
  const wire = given["from_dict then to_dict"]
  const saved = expect["to_dict"] === "identical to input" ? wire : expect["to_dict"]
  const loaded = yield* Effect.result(Plan.codec.decode(wire))
  if (typeof expect["refused"] === "string") {
    assert(Result.isFailure(loaded), "expected a refusal")
    assert.include(loaded.failure.message, expect["refused"])
    return
  }
  const definition = yield* Effect.fromResult(loaded)
  const written = yield* Plan.codec.encode(definition, { version: 2 }).pipe(
    // The order in which routes are tried is lost, as recorded: refused unless that is allowed.
    Effect.catchTag("LossyEncoding", (error) => {
      for (const { path } of error.losses) assert.match(path, /\/routes$/)
      return Plan.codec.encode(definition, { version: 2, allowLoss: error.losses })
    })
  )
  assert.strictEqual(JSON.stringify(written), JSON.stringify(saved))
})

/** Load with a registry of exactly the given keys. */
export const load = Effect.fnUntraced(function* ({ expect, given }: Case) {
  const keys = given["registry keys"]
  const has = new Set((Array.isArray(keys) ? keys : []).map(String))
  const wire = given["from_dict"]
  const predicates = Object.fromEntries([...has].filter((key) => key.startsWith("routes:")).map((key) => [key, "never"]))
  const full = registry(wire, { recording: recording(), fixtures: {}, predicates })
  const only = <A>(entries: { readonly [name: string]: A }): { readonly [name: string]: A } =>
    Object.fromEntries(Object.entries(entries).filter(([name]) => has.has(name) || has.has(`type:${name}`)))
  const result = yield* Effect.result(
    Plan.decode(wire, { targets: only(full.targets), predicates: full.predicates, schemas: only(full.schemas) })
  )
  if (expect["OK"] === true) {
    assert(Result.isSuccess(result), Result.isFailure(result) ? result.failure.message : "")
    return
  }
  assert(Result.isFailure(result), "expected a refusal")
  mentions(result.failure.message, expect)
})

