/**
 * Answers as values.
 *
 * An agent with an `output` Schema returns a decoded value, whatever text the model writes around its JSON. If an answer does
 * not fit, `ask` fails, and the error lists every problem.
 */
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import { Console, DateTime, Effect, Schema } from "effect"
import { Agent } from "effect-emissary"
import { ScriptedModel } from "effect-emissary/testing"

import { Tool, Toolkit } from "effect/ai"

const Invoice = Schema.Struct({
  supplier: Schema.String,
  due: Schema.DateTimeUtcFromString,
  total: Schema.Struct({ amount: Schema.Finite, currency: Schema.Literals(["EUR", "USD"]) }),
  lines: Schema.Array(Schema.Struct({ text: Schema.String, amount: Schema.Finite }))
})

const Files = Toolkit.make(
  Tool.make("read_file", { parameters: Schema.Struct({ name: Schema.String }), success: Schema.String })
)

const filesLayer = Files.toLayer({
  read_file: ({ name }) => Effect.succeed(`${name}: Wind & Wetter GmbH, 2 tents, 398.00 EUR, due 2027-03-01`)
})

/** `prompted`: the model reads the JSON Schema in its instructions. `native` and `tool` are the other strategies. */
const reader = Agent.make("invoice-reader", {
  instructions: "You turn invoices into data.",
  toolkit: Files,
  output: Invoice,
  outputStrategy: "prompted"
})

const call = { toolCalls: [{ name: "read_file", params: { name: "invoice.txt" } }] }

const invoice = {
  supplier: "Wind & Wetter GmbH",
  due: "2027-03-01T00:00:00Z",
  total: { amount: 398, currency: "EUR" },
  lines: [{ text: "2 tents", amount: 398 }]
}

const good = Effect.gen(function* () {
  const { due, supplier, total } = yield* reader.ask("Read invoice.txt")
  yield* Console.log(`${supplier} wants ${total.amount} ${total.currency} until ${DateTime.formatIsoDateUtc(due)}`)
}).pipe(
  Effect.provide(
    ScriptedModel.layer([
      call,
      { text: `Here you are:\n\`\`\`json\n${JSON.stringify(invoice)}\n\`\`\`\nAnything else?` }
    ])
  )
)

const bad = reader.ask("Read invoice.txt").pipe(
  Effect.asVoid,
  Effect.catchTag("RunIncomplete", ({ message, result }) =>
    Effect.gen(function* () {
      yield* Console.log(message)
      if (result.outcome !== "InvalidOutput") return
      for (const issue of result.issues)
        yield* Console.log(`  ${issue.path}: expected ${issue.expected}, got ${issue.found}`)
    })
  ),
  Effect.provide(ScriptedModel.layer([call, { object: { ...invoice, due: "soon", total: { amount: "398 Euro" } } }]))
)

Effect.andThen(good, bad).pipe(Effect.provide(filesLayer), NodeRuntime.runMain)
