/** MEND-10 W2: golden files of released versions never change. */
import { assert, describe, it } from "@effect/vitest"
import { basename, dirname } from "node:path"
import * as golden from "../../scripts/golden.ts"
import { glob } from "../../scripts/sources.ts"

const pins = golden.readPins()
const pinned = Object.values(pins).flatMap((files) => Object.keys(files))

/** The pins before the first release. */
const before = { interoperable: pins["interoperable"] ?? {} }

/** The golden sessions of a release are a copy of `next`. */
const copies = (release: string) =>
  golden.setOf("next").map((path) => path.replace(golden.nextSet, `${dirname(golden.nextSet)}/${release}`))

const readCopies: golden.Read = (path) =>
  golden.readFromRoot(path) ?? golden.readFromRoot(`${golden.nextSet}/${basename(path)}`)

describe("MEND-10 W2 golden files are pinned by their hash", () => {
  it("no pinned file has changed", () => {
    assert.deepStrictEqual(golden.problemsOf(pins, golden.readFromRoot), [])
  })

  it("the formats of other systems are pinned, all of their files", () => {
    const interoperable = golden.goldenFiles().filter((path) => /\/(?:agent-v1|plan-v[12])-/.test(path))
    assert.deepStrictEqual(
      interoperable.filter((path) => !pinned.includes(path)),
      []
    )
    assert.isAbove(interoperable.length, 5)
  })

  it("a pinned file that changes by one character, or that is gone, is refused", () => {
    for (const path of pinned) {
      const changed = golden.problemsOf(pins, (one) => golden.readFromRoot(one) + (one === path ? " " : ""))
      assert.deepStrictEqual(changed.length, 1)
      assert.include(changed[0] ?? "", `${path}: expected the file of`)
      const gone = golden.problemsOf(pins, (one) => (one === path ? undefined : golden.readFromRoot(one)))
      assert.match(gone[0] ?? "", /got no file\. Restore it/)
    }
  })

  it("a release pins what is not pinned, once, and nothing while a pinned file differs", () => {
    const files = golden.goldenFiles()
    const released = golden.pin(before, "0.1.0", files, golden.readFromRoot)
    assert.sameMembers(
      Object.values(released).flatMap((one) => Object.keys(one)),
      [...files]
    )
    assert.deepStrictEqual(golden.problemsOf(released, golden.readFromRoot), [])
    assert.throws(() => golden.pin(released, "0.1.0", files, golden.readFromRoot), /not pinned, got one that is/)
    const [first = ""] = Object.keys(before.interoperable)
    const changed: golden.Read = (path) => golden.readFromRoot(path) + (path === first ? "x" : "")
    assert.throws(() => golden.pin(released, "0.2.0", files, changed), /got another text/)
    const native = files.find((path) => !Object.hasOwn(before.interoperable, path)) ?? ""
    const edited: golden.Read = (path) => golden.readFromRoot(path) + (path === native ? "x" : "")
    assert.deepStrictEqual(golden.problemsOf(before, edited), [])
    assert.strictEqual(golden.problemsOf(released, edited).length, 1)
    const more = golden.pin(released, "0.2.0", [...files, "new.json"], (path) => golden.readFromRoot(path) ?? "{}")
    assert.deepStrictEqual(Object.keys(more["0.2.0"] ?? {}), ["new.json"])
  })

  it("WORLD-8 every pattern finds files, and the golden sessions of today's code are not pinned", () => {
    for (const pattern of golden.patterns) {
      if (!pattern.startsWith("test/golden/sessions/")) assert.isNotEmpty(glob(pattern), pattern)
    }
    assert.isAbove(golden.setOf("next").length, 10)
    assert.notInclude(golden.goldenFiles().join(), golden.nextSet)
  })

  it("WORLD-8 a version without golden sessions of its own is not published, and those of a release never change", () => {
    const files = [...golden.goldenFiles(), ...copies("0.1.0")]
    const released = golden.pin(before, "0.1.0", files, readCopies)
    assert.deepStrictEqual(golden.releaseProblems(released, "0.1.0", readCopies), [])
    const later = golden.pin(released, "0.2.0", [...files, "new.json"], (path) => readCopies(path) ?? "{}")
    assert.match(
      golden.releaseProblems(later, "0.2.0", (path) => readCopies(path) ?? "{}")[0] ?? "",
      /^0\.2\.0: expected golden sessions of its own/
    )
    const [first = ""] = copies("0.1.0")
    const changed: golden.Read = (path) => readCopies(path) + (path === first ? " " : "")
    assert.match(golden.problemsOf(released, changed)[0] ?? "", new RegExp(`^${first}: expected the file of 0.1.0`))
  })

  it("a version without pins is not published", () => {
    assert.match(
      golden.releaseProblems(before, "0.1.0", golden.readFromRoot)[0] ?? "",
      /Run node scripts\/golden\.ts --pin/
    )
  })
})
