import { assert, describe, it } from "@effect/vitest"
import { Console, ErrorReporter } from "effect"
import { keys } from "#src/tool/internal/callContext.ts"

describe("HOUSE-9 what an agent loads", () => {
  it("HOUSE-9 the keys of references whose modules are not loaded are those of Effect", () => {
    assert.strictEqual(keys.console, Console.Console.key)
    assert.strictEqual(keys.errorReporters, ErrorReporter.CurrentErrorReporters.key)
  })
})
