import { assert, describe, it } from "@effect/vitest"
import { measure, type Figures } from "../../scripts/house.ts"

interface Limit {
  readonly of: (figures: Figures) => number
  readonly least?: number
  readonly most: number
  /** The limit until the code satisfies `most`: only ever lowered, and removed in the end. */
  readonly pending?: number
}

/** `npm run house -- --details` lists what is behind each figure. */
const limits: Record<string, Limit> = {
  "import circles, type imports included": { of: ({ circles }) => circles.length, most: 0, pending: 31 },
  files: { of: ({ files }) => files, least: 60, most: 110, pending: 417 },
  "code lines of src": { of: ({ code }) => code, most: 22_500, pending: 31_911 },
  "code lines of the largest file": { of: ({ largest }) => largest.code, most: 1100 },
  "files under 40 code lines": { of: ({ small }) => small.length, most: 15, pending: 148 },
  "imports in percent of code lines": { of: ({ importShare }) => importShare, most: 6, pending: 9.7 },
  "file names used twice": { of: ({ duplicates }) => duplicates.length, most: 0, pending: 43 },
  "namespaces of the root": { of: ({ surface }) => surface["."]?.namespaces.length ?? 0, most: 25, pending: 104 },
  "names of all subpaths": { of: ({ names }) => names, most: 350, pending: 900 }
}

describe("HOUSE-1 HOUSE-2 HOUSE-3 figures", () => {
  const figures = measure()

  it.each(Object.keys(limits))("%s", (name) => {
    const { least, most, of, pending } = limits[name] ?? assert.fail(name)
    assert.isAtMost(of(figures), pending ?? most)
    if (least !== undefined) assert.isAtLeast(of(figures), least)
  })
})
