/** The assistant of the chat, its tools, and a model of a few rules that types at the pace of a person who is in a hurry. */
import { Config, Duration, Effect, Layer, Option, Schema } from "effect"
import { LanguageModel, Tool, Toolkit } from "effect/ai"
import { Agent, ClientTool, ModelRegistry, Question } from "effect-emissary"
import { EnvModels } from "effect-emissary/ai-sdk"
import { ScriptedModel } from "effect-emissary/testing"
import { help, story } from "./texts.ts"

const Tools = Toolkit.make(
  Tool.make("find_parcel", {
    description: "Where a parcel is",
    parameters: Schema.Struct({ parcel: Schema.String }),
    success: Schema.Struct({ parcel: Schema.String, place: Schema.String, days: Schema.Finite })
  }),
  Tool.make("look_up", {
    description: "What is known about one side of a topic",
    parameters: Schema.Struct({ topic: Schema.String, side: Schema.Literals(["history", "taste", "price"]) }),
    success: Schema.String
  }),
  Tool.make("refund", {
    description: "Pays the money for an order back",
    parameters: Schema.Struct({ order: Schema.String, amount: Schema.Finite }),
    success: Schema.String,
    needsApproval: true
  })
)

/** The page makes the calls of this tool. */
const LocalTime = ClientTool.make(
  Tool.make("local_time", {
    description: "The time where the user is",
    success: Schema.Struct({ time: Schema.String, zone: Schema.String })
  })
)

/** The page makes a form of the Schema. */
const OrderTea = Question.tool("order_tea", {
  description: "Ask the user what to order",
  answer: Schema.Struct({
    size: Schema.Literals(["small", "medium", "large"]).annotate({ title: "Size" }),
    cups: Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 9 })).annotate({ title: "Cups" }),
    extras: Schema.Array(Schema.Literals(["milk", "lemon", "honey"])).annotate({ title: "Extras" }),
    gift: Schema.Boolean.annotate({ title: "Wrap it as a gift" }),
    note: Schema.optionalKey(Schema.String.annotate({ title: "Note", description: "The cook reads it" }))
  })
})

export const assistant = Agent.make("assistant", {
  instructions: "You help the customers of a shop. Be brief, and write Markdown.",
  toolkit: [...Object.values(Tools.tools), LocalTime, OrderTea]
})

const facts = {
  history: "It was first traded by sea in 1610.",
  taste: "It is mild in spring and strong in autumn.",
  price: "A pound costs 24 EUR, and 9 EUR at the harbour."
}

/** `PACE` is a factor of the time that the tools take, default 1. */
export const toolsLive = Tools.toLayer(
  Effect.gen(function* () {
    const pace = yield* Config.Number("PACE").pipe(Config.withDefault(1))
    const after = (seconds: number) => Effect.delay(Duration.seconds(seconds * pace))
    return {
      find_parcel: ({ parcel }) => after(1)(Effect.succeed({ parcel, place: "Lisbon", days: 2 })),
      look_up: ({ side }) => after(4)(Effect.succeed(facts[side])),
      refund: ({ amount, order }) => after(1)(Effect.succeed(`${amount} EUR are paid back for order ${order}.`))
    }
  })
)

/** The first attempt of a turn that should fail breaks, and the next one answers. */
let isBroken = false

const answer = ({ messages }: ScriptedModel.Request): ScriptedModel.Turn => {
  const last = messages.at(-1)
  const asked = messages.findLast(({ role }) => role === "user")
  const text = asked?.text ?? ""
  const results = last?.toolResults ?? []
  const sinceAsked = messages.slice(messages.lastIndexOf(asked ?? messages[0]!) + 1)

  const topic = /research (.+)/i.exec(text)?.[1]?.replace(/[.!?]+$/, "")
  if (topic !== undefined) {
    const side = (["history", "taste", "price"] as const)[sinceAsked.filter(({ role }) => role === "tool").length]
    if (side !== undefined)
      return {
        text: `I look at the **${side}** of ${topic}.`,
        toolCalls: [{ name: "look_up", params: { topic, side } }]
      }
    const found = sinceAsked.flatMap(({ toolResults = [] }) => toolResults.map(({ text }) => `- ${text}`))
    return { text: `This is what I found about **${topic}**:\n\n${found.join("\n")}` }
  }
  const [result] = results
  if (result?.isFailure === true)
    return {
      text: `I did not do it: ${/interrupted/i.test(result.text) ? "I was interrupted." : "you said no."}\n\n> ${result.text}`
    }
  if (result?.name === "find_parcel")
    return { text: "Parcel **7** has been in Lisbon for two days. It comes *tomorrow*." }
  if (result?.name === "order_tea") return { text: `Your order: \`${result.text}\`` }
  if (result?.name === "local_time") return { text: `For you it is \`${result.text}\`.` }
  if (result !== undefined) return { text: results.map(({ text }) => `Done: ${text}`).join("\n\n") }

  // The message came while tools were at work
  if (last?.role === "user" && messages.at(-2)?.role === "tool")
    return { text: `You say "${text}", so I leave it at that. What I know so far: ${messages.at(-2)?.text}` }

  const parcel = /parcel (\w+)/i.exec(text)?.[1]
  if (parcel !== undefined) return { text: "Let me look.", toolCalls: [{ name: "find_parcel", params: { parcel } }] }
  const orders = /refund(?: orders?)? (\w+(?:(?:, | and )\w+)*)/i.exec(text)?.[1]?.split(/, | and /)
  if (orders !== undefined)
    return {
      text: "I can do that, if you agree.",
      toolCalls: orders.map((order) => ({ name: "refund", params: { order, amount: 25 } }))
    }
  if (/order tea/i.test(text))
    return { text: "Gladly.", toolCalls: [{ name: "order_tea", params: { question: "What may I bring you?" } }] }
  if (/what time/i.test(text))
    return { text: "Let me ask your browser.", toolCalls: [{ name: "local_time", params: {} }] }
  if (/story/i.test(text)) return { text: story }
  if (/fail/i.test(text)) {
    isBroken = !isBroken
    return isBroken
      ? { text: "This will not go well, because", fail: { reason: "AuthenticationError" } }
      : { text: "It went well this time." }
  }
  const files = asked?.files ?? []
  if (files.length > 0)
    return {
      text: `I see ${files.length === 1 ? "a picture" : `${files.length} pictures`}. I am a script, so I cannot say more about it.`
    }
  if (/^thank/i.test(text)) return { text: "You are welcome." }
  return { text: /hello|hi\b|help/i.test(text) ? help : `You wrote:\n\n${text}\n\nSay **help** to see what I can do.` }
}

const scripted = ScriptedModel.layer(
  (request) => ({ delay: "400 millis", chunkDelay: "25 millis", ...answer(request) }),
  {
    chunkSize: 5
  }
)

const named = (name: string) =>
  Layer.effect(
    LanguageModel.LanguageModel,
    Effect.flatMap(ModelRegistry.ModelRegistry, (registry) => registry.resolve(name, {}))
  ).pipe(Layer.provide(EnvModels.layer()))

export const modelLive = Layer.unwrap(
  Effect.map(Config.option(Config.String("EMISSARY_MODEL")), Option.match({ onNone: () => scripted, onSome: named }))
)
