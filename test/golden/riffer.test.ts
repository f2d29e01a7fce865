import { Effect } from "effect"
import { type Case, type Json, list, objects, type Omission, suite } from "./family.ts"
import { dispatch } from "./riffer/dispatch.ts"
import { loop } from "./riffer/loop.ts"
import { messages, session } from "./riffer/messages.ts"
import { import_, schema, structured, validate } from "./riffer/schemas.ts"
import { decode, encode, roundtrip } from "./riffer/wire.ts"

const groups: { readonly [group: string]: (golden: Case) => Effect.Effect<void, unknown> } = {
  decode,
  dispatch,
  encode,
  import: import_,
  loop,
  messages,
  roundtrip,
  schema,
  session,
  structured,
  validate
}

const uses = ({ given }: Case, names: ReadonlyArray<string>): boolean =>
  list(given["ops"]).some((op) => names.includes(String(list(op)[0])))

/** Parts that the vocabulary lets a library leave out, because they are the inside of another library. */
const omissions: ReadonlyArray<Omission> = [
  {
    reason: "conversations are values: they are not edited in place, and they have no observers",
    covers: (golden) => golden.group === "session" && uses(golden, ["add_silent", "set", "remove", "update"])
  },
  {
    reason: "an unlawful history cannot be made, so there is nothing to prune; an open end is sealed, never dropped",
    covers: (golden) => golden.group === "session" && uses(golden, ["prune_orphans"])
  },
  {
    reason: "an agent holds no session: a conversation is an argument of the run and used verbatim (AGENT-2)",
    covers: ({ given, group }) => group === "session" && ("wire" in given || "wire_text" in given)
  },
  {
    reason: "messages of one role in a row are lawful and stay as they are: renderers merge results only (CONV-4)",
    covers: ({ given, group }) => group === "messages" && given["op"] === "prepare"
  }
]

suite({
  name: "riffer",
  more: ["riffer-specified.json"],
  omissions,
  deviations: [
    { reason: "what the case itself asks of a strict library", expect: ({ deviation }) => deviation?.expect },
    {
      reason: `the text of a defect can quote secrets: it is in the log, and the model reads it with defects: "describe" only`,
      cases: "R148 R150 R155c R155d",
      expect: ({ expect }) => {
        const quotes = (result: Json) => result["error_type"] === "unhandled_error" && list(result["mentions"]).length > 0
        const results = objects(expect["results"])
        const plain = results.map((result) => (quotes(result) ? { ...result, mentions: ["unexpectedly"] } : result))
        return results.some(quotes) ? { ...expect, results: plain } : undefined
      }
    },
    {
      reason: "conversations are values without observers, so that nothing fires",
      expect: ({ expect: { fired, ...expect } }) => (fired === undefined ? undefined : expect)
    }
  ],
  inapplicable: [
    {
      reason: "behaviour of an older era, where the newest one differs so that no library can do both",
      cases: "R065b",
      covers: ({ era }) => era !== undefined && era !== "newest"
    }
  ],
  check: (golden) =>
    (groups[golden.group ?? ""] ?? (() => Effect.die(`the vocabulary has no group "${golden.group}"`)))(golden)
})
