/**
 * The world of the tasks: a shop, an airline, a phone and files as one JSON value, and tools over it. A tool that changes the world is recorded with
 * its arguments when it has done so.
 *
 * The kinds of data and tools come from public benchmarks, expressed anew with other people, goods and texts: a retail desk and an airline as in τ-bench
 * (Sierra Research, MIT licence), a phone with settings, contacts, messages and reminders as in ToolSandbox (Apple Inc., licence of its
 * repository), and files as in the Berkeley Function Calling Leaderboard (UC Berkeley, Apache License 2.0).
 */
import { Context, Effect, Layer, Schema } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { ClientTool, Question, ToolFailure } from "effect-emissary"

const text = Schema.String
const texts = Schema.Array(Schema.String)

export interface State {
  users: Record<string, { name: string; zip: string; email: string; address: string; payments: Array<string> }>
  products: Record<string, Record<string, { option: string; price: number; left: number }>>
  orders: Record<
    string,
    { user: string; status: string; items: Array<string>; address: string; payment: string; note?: string }
  >
  flights: Record<
    string,
    { user: string; cabin: string; bags: number; names: Array<string>; paid: number; status: string }
  >
  certificates: Record<string, number>
  settings: Record<"cellular" | "wifi" | "lowBattery" | "location", boolean>
  contacts: Record<string, { name: string; phone: string; relation: string }>
  sent: Array<{ to: string; text: string }>
  reminders: Record<string, { text: string; at: number; place?: string }>
  events: Record<string, { title: string; day: string; hour: number; with: Array<string> }>
  files: Record<string, string>
}

/** The world before each task. */
export const initial = (): State => ({
  users: {
    ida: {
      name: "Ida Holm",
      zip: "10115",
      email: "ida@example.com",
      address: "Elm Road 1",
      payments: ["card-1", "gift-1"]
    },
    ben: { name: "Ben Adu", zip: "20095", email: "ben.a@example.com", address: "Quay 9", payments: ["paypal-2"] },
    mei: {
      name: "Mei Ito",
      zip: "50667",
      email: "mei@example.com",
      address: "Hill 4",
      payments: ["card-3", "paypal-3"]
    }
  },
  products: {
    mouse: {
      "m-1": { option: "black laser", price: 40, left: 4 },
      "m-2": { option: "white optical wired", price: 35, left: 2 },
      "m-3": { option: "white optical wireless", price: 52, left: 7 }
    },
    shelf: {
      "s-4": { option: "metal 4 feet", price: 90, left: 1 },
      "s-5": { option: "glass 5 feet brown", price: 120, left: 3 },
      "s-6": { option: "glass 5 feet white", price: 120, left: 0 }
    },
    kettle: { "k-1": { option: "steel", price: 60, left: 9 } },
    coffee: {
      "c-19": { option: "19 bar", price: 300, left: 1 },
      "c-9": { option: "9 bar capsule", price: 210, left: 2 }
    },
    shirt: {
      "t-1": { option: "red S", price: 20, left: 3 },
      "t-2": { option: "red M", price: 20, left: 0 },
      "t-3": { option: "blue M", price: 20, left: 5 }
    },
    puzzle: { "p-1": { option: "1,000 pieces", price: 25, left: 6 } }
  },
  orders: {
    "w-101": { user: "ida", status: "pending", items: ["k-1"], address: "Elm Road 1", payment: "card-1" },
    "w-166": { user: "ida", status: "pending", items: ["t-1"], address: "Elm Road 1", payment: "card-1" },
    "w-202": { user: "ben", status: "delivered", items: ["m-1", "s-4"], address: "Quay 9", payment: "paypal-2" },
    "w-203": { user: "ben", status: "delivered", items: ["p-1", "t-1"], address: "Quay 9", payment: "paypal-2" },
    "w-301": { user: "mei", status: "pending", items: ["c-19"], address: "Hill 4", payment: "card-3" },
    "w-302": { user: "mei", status: "pending", items: ["t-3"], address: "Mill Lane 7", payment: "card-3" },
    "w-303": { user: "mei", status: "pending", items: ["m-1"], address: "Hill 4", payment: "paypal-3" }
  },
  flights: {
    "r-1": { user: "ida", cabin: "economy", bags: 0, names: ["Ida Holm"], paid: 240, status: "booked" },
    "r-2": { user: "ida", cabin: "basic", bags: 0, names: ["Ida Holm"], paid: 90, status: "booked" },
    "r-3": { user: "mei", cabin: "business", bags: 2, names: ["Mei Ito", "Ken Itoo"], paid: 1400, status: "booked" },
    "r-4": { user: "mei", cabin: "business", bags: 1, names: ["Mei Ito"], paid: 800, status: "booked" }
  },
  certificates: {},
  settings: { cellular: false, wifi: false, lowBattery: true, location: true },
  contacts: {
    ana: { name: "Ana Ruiz", phone: "+1 555 0101", relation: "boss" },
    leo: { name: "Leo Park", phone: "+1 555 0102", relation: "friend" },
    lea: { name: "Lea Park", phone: "+1 555 0103", relation: "friend" },
    tom: { name: "Tom Bell", phone: "+1 555 0104", relation: "brother" }
  },
  sent: [],
  reminders: {
    milk: { text: "Buy milk", at: 90 },
    rent: { text: "Pay the rent", at: 140 },
    gift: { text: "Wrap the gift", at: 60 }
  },
  events: {
    standup: { title: "Standup", day: "monday", hour: 9, with: ["ana", "me"] },
    review: { title: "Review", day: "monday", hour: 10, with: ["me"] },
    lunch: { title: "Lunch", day: "monday", hour: 12, with: ["ana"] }
  },
  files: {
    "/docs/report.txt": "totals\nnorth 12\nsouth 7",
    "/docs/names.txt": "zoe\nabe\nmia",
    "/docs/old-names.txt": "abe\nzoe",
    "/logs/app.log": "start\nerror disk\nok\nerror net\nstop",
    "/drafts/one.md": "First thoughts",
    "/drafts/two.md": "Second thoughts"
  }
})

/** A change as text: the tool, and its arguments in the order of their names. */
export const changeOf = (name: string, args: object): string =>
  `${name} ${JSON.stringify(Object.fromEntries(Object.entries(args).toSorted(([a], [b]) => (a < b ? -1 : 1))))}`

/** The only time that the world knows, in hours. */
const now = 100

/** The world of a task, outside of all processes: its state, and what changed it, in order. `attempts` counts model calls, by place. */
export class World extends Context.Service<
  World,
  {
    readonly state: State
    readonly changes: Array<string>
    readonly attempts: Map<string, number>
    /** The tokens that providers have reported. */
    readonly reported: { input: number; output: number }
  }
>()("tasks/World") {
  static readonly layer = Layer.sync(World, () => ({
    state: initial(),
    changes: [],
    attempts: new Map<string, number>(),
    reported: { input: 0, output: 0 }
  }))
}

const tool = <Name extends string, Fields extends Schema.Struct.Fields>(name: Name, fields: Fields) =>
  Tool.make(name, { parameters: Schema.Struct(fields), success: Schema.Json, failure: ToolFailure })

/** A tool that changes the world, and needs an approval. */
const guarded = <Name extends string, Fields extends Schema.Struct.Fields>(name: Name, fields: Fields) =>
  Tool.make(name, {
    parameters: Schema.Struct(fields),
    success: Schema.Json,
    failure: ToolFailure,
    needsApproval: true
  })

const reading = <Name extends string, Fields extends Schema.Struct.Fields>(name: Name, fields: Fields) =>
  tool(name, fields).annotate(Tool.Idempotent, true)

export const toolkit = Toolkit.make(
  // A model that does not know whether its call took effect looks first
  reading("was_done", { change: text }),
  reading("find_user", { email: Schema.optionalKey(text), zip: Schema.optionalKey(text) }),
  reading("get_user", { user: text }),
  reading("get_order", { order: text }),
  reading("get_product", { product: text }),
  guarded("cancel_order", { order: text, reason: text }),
  guarded("return_items", { order: text, items: texts, refund: text }),
  guarded("exchange_items", { order: text, items: texts, by: texts, payment: text }),
  tool("change_items", { order: text, items: texts, by: texts }),
  tool("change_address", { order: text, address: text }),
  tool("change_payment", { order: text, payment: text }),
  reading("get_booking", { booking: text }),
  guarded("cancel_booking", { booking: text }),
  tool("change_cabin", { booking: text, cabin: text }),
  tool("set_bags", { booking: text, bags: Schema.Int }),
  tool("rename_traveller", { booking: text, from: text, to: text }),
  tool("send_certificate", { user: text, amount: Schema.Int }),
  reading("get_settings", {}),
  tool("set_setting", { name: Schema.Literals(["cellular", "wifi", "lowBattery", "location"]), on: Schema.Boolean }),
  reading("find_contacts", { query: text }),
  tool("save_contact", { id: text, name: text, phone: text, relation: text }),
  guarded("remove_contact", { id: text }),
  tool("send_message", { to: text, text }),
  reading("list_reminders", {}),
  tool("set_reminder", { id: text, text, at: Schema.Int, place: Schema.optionalKey(text) }),
  tool("remove_reminder", { id: text }),
  reading("list_events", { day: text, person: text }),
  tool("set_event", { id: text, title: text, day: text, hour: Schema.Int, with: texts }),
  reading("list_files", { folder: text }),
  reading("read_file", { path: text }),
  reading("search_file", { path: text, word: text }),
  tool("write_file", { path: text, content: text }),
  tool("append_file", { path: text, line: text }),
  tool("move_file", { from: text, to: text }),
  tool("copy_file", { from: text, to: text }),
  guarded("remove_file", { path: text })
)

export const AskUser = Question.tool("ask_user", {
  description: "Ask the user",
  answer: Schema.Struct({ choice: Schema.String.check(Schema.isMinLength(1)) })
})

/** The page of the user knows the place. */
export const Locate = ClientTool.make(
  Tool.make("locate", { description: "Where the user is", success: Schema.Struct({ place: Schema.String }) })
)

class Refused extends Schema.TaggedError<Refused>()("Refused", { message: Schema.String }) {}

/** The value under a key. */
const at = <A>(all: Readonly<Record<string, A>>, key: string): A => {
  const found = all[key]
  if (found === undefined) throw new Refused({ message: `There is no ${key}.` })
  return found
}

const must = (holds: boolean, message: string) => {
  if (!holds) throw new Refused({ message })
}

const swapped = (items: ReadonlyArray<string>, from: ReadonlyArray<string>, by: ReadonlyArray<string>) =>
  items.map((item) => by[from.indexOf(item)] ?? item)

const lines = (content: string) => content.split("\n")

export const handlers = toolkit.toLayer(
  Effect.map(World, ({ changes, state }) => {
    const failing = (run: () => Schema.Json) =>
      Effect.try({
        try: run,
        catch: (error) =>
          new ToolFailure({ type: "refused", message: error instanceof Refused ? error.message : String(error) })
      })
    const read =
      <Args>(look: (args: Args) => Schema.Json) =>
      (args: Args) =>
        // A read that reaches the model as it was then
        failing(() => structuredClone(look(args)))
    const change =
      <Args extends object>(name: string, act: (args: Args) => Schema.Json) =>
      (args: Args) =>
        failing(() => {
          const result = act(args)
          changes.push(changeOf(name, args))
          return result
        })
    const pending = (order: string) => {
      const found = at(state.orders, order)
      must(found.status === "pending", `The order ${order} is ${found.status}.`)
      return found
    }
    const delivered = (order: string) => {
      const found = at(state.orders, order)
      must(found.status === "delivered", `The order ${order} is ${found.status}.`)
      return found
    }
    return toolkit.of({
      was_done: read(({ change }) => changes.includes(change)),
      find_user: read(({ email, zip }) => {
        const found = Object.entries(state.users).filter(([, user]) => user.email === email || user.zip === zip)
        must(found.length > 0, "There is no such user.")
        return found.map(([id]) => id)
      }),
      get_user: read(({ user }) => ({
        ...at(state.users, user),
        orders: Object.keys(state.orders).filter((id) => state.orders[id]?.user === user),
        bookings: Object.keys(state.flights).filter((id) => state.flights[id]?.user === user)
      })),
      get_order: read(({ order }) => at(state.orders, order)),
      get_product: read(({ product }) => at(state.products, product)),
      cancel_order: change("cancel_order", ({ order, reason }) => {
        Object.assign(pending(order), { status: "cancelled", note: reason })
        return "cancelled"
      }),
      return_items: change("return_items", ({ items, order, refund }) => {
        const found = delivered(order)
        must(at(state.users, found.user).payments.includes(refund), `${refund} is not a payment of the user.`)
        Object.assign(found, { status: "return requested", note: `${items.join()} to ${refund}` })
        return "requested"
      }),
      exchange_items: change("exchange_items", ({ by, items, order, payment }) => {
        const found = delivered(order)
        Object.assign(found, { status: "exchange requested", items: swapped(found.items, items, by), payment })
        return "requested"
      }),
      change_items: change("change_items", ({ by, items, order }) => {
        const found = pending(order)
        found.items = swapped(found.items, items, by)
        return found.items
      }),
      change_address: change("change_address", ({ address, order }) => (pending(order).address = address)),
      change_payment: change("change_payment", ({ order, payment }) => (pending(order).payment = payment)),
      get_booking: read(({ booking }) => at(state.flights, booking)),
      cancel_booking: change("cancel_booking", ({ booking }) => (at(state.flights, booking).status = "cancelled")),
      change_cabin: change("change_cabin", ({ booking, cabin }) => {
        const found = at(state.flights, booking)
        must(found.cabin !== "basic", "A basic booking cannot be changed.")
        const refund = cabin === "economy" ? Math.floor(found.paid / 2) : 0
        Object.assign(found, { cabin, paid: found.paid - refund })
        return { refund }
      }),
      set_bags: change("set_bags", ({ bags, booking }) => (at(state.flights, booking).bags = bags)),
      rename_traveller: change("rename_traveller", ({ booking, from, to }) => {
        const found = at(state.flights, booking)
        must(found.names.includes(from), `${from} does not travel.`)
        return (found.names = swapped(found.names, [from], [to]))
      }),
      send_certificate: change("send_certificate", ({ amount, user }) => (state.certificates[user] = amount)),
      get_settings: read(() => state.settings),
      set_setting: change("set_setting", ({ name, on }) => {
        must(!on || name === "lowBattery" || !state.settings.lowBattery, "The battery saver is on.")
        return (state.settings[name] = on)
      }),
      find_contacts: read(({ query }) =>
        Object.entries(state.contacts).flatMap(([id, contact]) =>
          Object.values(contact).some((value) => value.toLowerCase().includes(query.toLowerCase()))
            ? [{ id, ...contact }]
            : []
        )
      ),
      save_contact: change("save_contact", ({ id, ...contact }) => (state.contacts[id] = contact)),
      remove_contact: change("remove_contact", ({ id }) => {
        at(state.contacts, id)
        return delete state.contacts[id]
      }),
      send_message: change("send_message", ({ text, to }) => {
        must(state.settings.cellular, "Cellular service is off.")
        return state.sent.push({ to: at(state.contacts, to).phone, text })
      }),
      list_reminders: read(() => ({ now, reminders: state.reminders })),
      set_reminder: change("set_reminder", ({ id, ...reminder }) => (state.reminders[id] = reminder)),
      remove_reminder: change("remove_reminder", ({ id }) => {
        at(state.reminders, id)
        return delete state.reminders[id]
      }),
      list_events: read(({ day, person }) =>
        Object.values(state.events)
          .filter((event) => event.day === day && event.with.includes(person))
          .map(({ hour }) => hour)
      ),
      set_event: change("set_event", ({ id, ...event }) => {
        state.events[id] = { ...event, with: [...event.with] }
        return event
      }),
      list_files: read(({ folder }) => Object.keys(state.files).filter((path) => path.startsWith(`${folder}/`))),
      read_file: read(({ path }) => at(state.files, path)),
      search_file: read(({ path, word }) => lines(at(state.files, path)).filter((line) => line.includes(word))),
      write_file: change("write_file", ({ content, path }) => (state.files[path] = content)),
      append_file: change("append_file", ({ line, path }) => (state.files[path] = `${at(state.files, path)}\n${line}`)),
      move_file: change("move_file", ({ from, to }) => {
        state.files[to] = at(state.files, from)
        return delete state.files[from]
      }),
      copy_file: change("copy_file", ({ from, to }) => (state.files[to] = at(state.files, from))),
      remove_file: change("remove_file", ({ path }) => {
        at(state.files, path)
        return delete state.files[path]
      })
    })
  })
)
