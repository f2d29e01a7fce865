/**
 * The cost of reading untrusted JSON: `Json.parse` and `Json.check` against a bare
 * `JSON.parse`, as ratios, so that the numbers mean the same on any machine.
 *
 *     node bench/payload.ts
 */
import { Effect } from "effect"
import { Json, VersionedCodec } from "effect-emissary/payload"
import { Schema } from "effect"

const seconds = (f: () => unknown): number => {
  let best = Number.POSITIVE_INFINITY
  for (let round = 0; round < 15; round++) {
    const start = performance.now()
    f()
    best = Math.min(best, performance.now() - start)
  }
  return best
}

const Message = Schema.Struct({ id: Schema.String, role: Schema.String, content: Schema.String })
const Thread = Schema.Struct({ messages: Schema.Array(Message) })
const codec = VersionedCodec.make({
  what: "thread",
  field: "version",
  type: Thread,
  arms: [
    VersionedCodec.arm({
      version: 1,
      wire: Schema.Struct({ version: Schema.Literal(1), ...Thread.fields }),
      toCurrent: ({ messages }) => Effect.succeed({ messages }),
      fromCurrent: ({ messages }: typeof Thread.Type) => VersionedCodec.lossless({ version: 1 as const, messages })
    })
  ]
})

const thread = (messages: number, length: number) => ({
  version: 1,
  messages: Array.from({ length: messages }, (_, i) => ({
    id: `m${i}`,
    role: "user",
    content: "word ".repeat(length / 5)
  }))
})

const inputs: ReadonlyArray<readonly [name: string, value: object]> = [
  ["2,000 messages of 200 characters", thread(2_000, 200)],
  ["20 messages of 100 kB", thread(20, 100_000)],
  ["10,000 messages of 5 characters", thread(10_000, 5)]
]

for (const [name, value] of inputs) {
  const text = JSON.stringify(value)
  const bare = seconds(() => JSON.parse(text))
  const row = {
    "JSON.parse ms": bare.toFixed(2),
    "Json.parse": (seconds(() => Effect.runSync(Json.parse(text))) / bare).toFixed(1),
    "JSON.parse, Json.check": (seconds(() => Effect.runSync(Json.check(JSON.parse(text)))) / bare).toFixed(1),
    "VersionedCodec.decodeJson": (seconds(() => Effect.runSync(codec.decodeJson(text))) / bare).toFixed(1)
  }
  process.stdout.write(`${name} (${text.length} bytes): ${JSON.stringify(row)}\n`)
}
