/** The output of the examples, as docs/examples.md shows it. */
import { assert } from "@effect/vitest"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { root } from "../package/run.ts"

/** The parts that each example must print, in this order: the blocks of the page, without "…", which is text that differs. */
export const expected: Readonly<Record<string, ReadonlyArray<string>>> = Object.fromEntries(
  readFileSync(join(root, "docs/examples.md"), "utf8")
    .split(/^## /m)
    .slice(1)
    .map((section) => {
      const name = section.slice(0, section.indexOf("\n"))
      const [, block = ""] = /```text\n([^]*?)```/.exec(section) ?? []
      return [
        name,
        block
          .split(/\n|…/)
          .map((part) => part.trim())
          .filter((part) => part !== "")
      ]
    })
)

export const assertInOrder = (output: string, parts: ReadonlyArray<string>) => {
  let from = 0
  for (const part of parts) {
    const at = output.indexOf(part, from)
    assert.isAtLeast(at, 0, `${JSON.stringify(part)} is missing, or stands too early, in:\n${output}`)
    from = at + part.length
  }
}
