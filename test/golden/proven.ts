import { readdirSync, readFileSync } from "node:fs"
import { fileURLToPath } from "node:url"
import { assert, it } from "@effect/vitest"

/**
 * Cases that are described in prose, and rows of the tables P and Q, that tests of the rooms
 * prove. Each is named in the title of a test, or in a comment beside it.
 */
const ids = "D53 D55 D56 J16 O05 O06 O08 O16 O18 P01 P02 P04 P05 P06 P07 P09 P10 P11 P12 P13 P14 P15 P16 P17 P18 P19 P20 P21 P24 P32 P35 P38 P39 P40 Q01 Q03 Q04 Q05 Q06 Q07 Q08 Q09 Q10"

export const proven: ReadonlySet<string> = new Set(ids.split(" "))

/** The proven ones of some groups, in words for a judgement. */
export const provenOf = (pattern: RegExp): string => [...proven].filter((id) => pattern.test(id)).join(" ")

/** That a test of a room names each of them. */
export const itNamesThem = (): void =>
  it("each that a test of a room proves is named there", () => {
    const root = fileURLToPath(new URL("..", import.meta.url))
    const files = readdirSync(root, { recursive: true, encoding: "utf8" }).filter((file) => file.endsWith(".test.ts"))
    const rooms = files.filter((file) => !file.startsWith("golden"))
    const text = rooms.map((file) => readFileSync(`${root}/${file}`, "utf8")).join("\n")
    for (const id of proven) assert.match(text, new RegExp(`\\b${id}\\b`, "u"))
  })
