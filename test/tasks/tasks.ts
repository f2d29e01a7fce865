/**
 * Tasks as data: what the models do for a message, what people answer, and the world afterwards. The facts are expressed anew after tasks of public
 * benchmarks, with other people, goods and texts; `world.ts` names the benchmarks and their licences.
 */
import type { Schema } from "effect"

type Params = { readonly [name: string]: Schema.Json }

/** A call of a tool: its name, and its arguments. */
export type Call = readonly [name: string, params?: Params]

/** The results that a model has read, by the name of the tool, the newest one of each tool or all of them. */
export interface Seen {
  readonly last: (name: string, ...path: ReadonlyArray<string | number>) => Schema.Json
  readonly all: (name: string) => ReadonlyArray<Schema.Json>
}

/** An answer of a model: calls, or the end of a run in words or as an object. */
export interface Answer {
  readonly calls?: ReadonlyArray<Call>
  readonly object?: Schema.Json
}

export type Step = Answer | ((seen: Seen) => Answer)

export interface Task {
  readonly name: string
  readonly source: "τ-bench retail" | "τ-bench airline" | "ToolSandbox" | "BFCL"
  /** The answers of the model, one after the other; after them the model ends the task. */
  readonly steps: ReadonlyArray<Step>
  /** The same for agents behind tools, by what they are asked after the name of the task. */
  readonly inner?: Readonly<Record<string, ReadonlyArray<Step>>>
  /** The answers of people, by question. */
  readonly answers?: Readonly<Record<string, string>>
  /** Calls that people deny, by a part of their arguments. */
  readonly denied?: string
  /** The agent answers with an object. */
  readonly hasObject?: boolean
  /** The values that changed, by place; a place without a value is gone. */
  readonly after: ReadonlyArray<readonly [place: string, value?: Schema.Json]>
}

const calls = (...all: ReadonlyArray<Call>): Answer => ({ calls: all })

const text = (value: Schema.Json): string => (typeof value === "string" ? value : JSON.stringify(value))

const list = (value: Schema.Json): ReadonlyArray<Schema.Json> => (Array.isArray(value) ? value : [])

const keys = (value: Schema.Json): ReadonlyArray<string> =>
  typeof value === "object" && value !== null && !Array.isArray(value) ? Object.keys(value) : []

const number = (value: Schema.Json): number => Number(value)

/** The goods with these words in their option that are left, cheapest first. */
const goods = (product: Schema.Json, ...words: ReadonlyArray<string>): ReadonlyArray<string> => {
  const all: Record<string, { option: string; price: number; left: number }> = JSON.parse(JSON.stringify(product))
  return Object.entries(all)
    .filter(([, { left, option }]) => left > 0 && words.every((word) => option.includes(word)))
    .toSorted(([, a], [, b]) => a.price - b.price)
    .map(([id]) => id)
}

const first = (all: ReadonlyArray<string>): string => all[0] ?? "nothing"

const ask = (question: string): Call => ["ask_user", { question }]

const retail: ReadonlyArray<Omit<Task, "source">> = [
  {
    name: "a traveller who will not be there cancels an order",
    steps: [
      calls(["find_user", { zip: "10115" }]),
      (seen) => calls(["get_user", { user: seen.last("find_user", 0) }]),
      calls(["get_order", { order: "w-101" }]),
      calls(["cancel_order", { order: "w-101", reason: "no longer needed" }])
    ],
    after: [
      ["orders > w-101 > status", "cancelled"],
      ["orders > w-101 > note", "no longer needed"]
    ]
  },
  {
    name: "two orders by mistake are cancelled in one answer",
    steps: [
      calls(["get_order", { order: "w-101" }], ["get_order", { order: "w-166" }]),
      calls(
        ["cancel_order", { order: "w-101", reason: "ordered by mistake" }],
        ["cancel_order", { order: "w-166", reason: "ordered by mistake" }]
      )
    ],
    after: ["w-101", "w-166"].flatMap((order) => [
      [`orders > ${order} > status`, "cancelled"] as const,
      [`orders > ${order} > note`, "ordered by mistake"] as const
    ])
  },
  {
    name: "a mouse and a shelf become the cheapest white optical mouse and a brown glass shelf",
    steps: [
      calls(["find_user", { email: "ben.a@example.com" }]),
      calls(
        ["get_order", { order: "w-202" }],
        ["get_product", { product: "mouse" }],
        ["get_product", { product: "shelf" }]
      ),
      calls(ask("Which colour of glass?")),
      (seen) => {
        const [mouse = null, shelf = null] = seen.all("get_product")
        const colour = text(seen.last("ask_user", "choice"))
        const by = [first(goods(mouse, "white", "optical")), first(goods(shelf, "glass", colour))]
        return calls(["exchange_items", { order: "w-202", items: ["m-1", "s-4"], by, payment: "paypal-2" }])
      }
    ],
    answers: { "Which colour of glass?": "brown" },
    after: [
      ["orders > w-202 > status", "exchange requested"],
      ["orders > w-202 > items", ["m-2", "s-5"]]
    ]
  },
  {
    name: "a puzzle without all of its pieces comes back",
    steps: [
      calls(["get_order", { order: "w-203" }]),
      calls(["return_items", { order: "w-203", items: ["p-1"], refund: "paypal-2" }])
    ],
    after: [
      ["orders > w-203 > status", "return requested"],
      ["orders > w-203 > note", "p-1 to paypal-2"]
    ]
  },
  {
    name: "one thing more comes back when the customer is asked",
    steps: [
      calls(["get_order", { order: "w-203" }]),
      calls(ask("Anything else to return?")),
      (seen) =>
        calls(["return_items", { order: "w-203", items: ["p-1", seen.last("ask_user", "choice")], refund: "paypal-2" }])
    ],
    answers: { "Anything else to return?": "t-1" },
    after: [
      ["orders > w-203 > status", "return requested"],
      ["orders > w-203 > note", "p-1,t-1 to paypal-2"]
    ]
  },
  {
    name: "an order of which the customer knows the last digits",
    steps: [
      calls(["get_user", { user: "ida" }]),
      (seen) => calls(...list(seen.last("get_user", "orders")).map((order): Call => ["get_order", { order }])),
      (seen) => {
        const order = list(seen.last("get_user", "orders")).find((id) => text(id).endsWith("66")) ?? "none"
        return calls(["cancel_order", { order, reason: "ordered by mistake" }])
      }
    ],
    after: [
      ["orders > w-166 > status", "cancelled"],
      ["orders > w-166 > note", "ordered by mistake"]
    ]
  },
  {
    name: "three orders have other payments, and then other goods",
    steps: [
      calls(["get_user", { user: "mei" }]),
      calls(
        ["change_payment", { order: "w-301", payment: "paypal-3" }],
        ["change_payment", { order: "w-302", payment: "paypal-3" }],
        ["change_payment", { order: "w-303", payment: "card-3" }]
      ),
      calls(["get_product", { product: "coffee" }], ["get_product", { product: "mouse" }]),
      (seen) => {
        const [coffee = null, mouse = null] = seen.all("get_product")
        return calls(
          ["change_items", { order: "w-301", items: ["c-19"], by: goods(coffee, "capsule") }],
          ["change_items", { order: "w-303", items: ["m-1"], by: goods(mouse, "wireless") }]
        )
      }
    ],
    after: [
      ["orders > w-301 > payment", "paypal-3"],
      ["orders > w-302 > payment", "paypal-3"],
      ["orders > w-303 > payment", "card-3"],
      ["orders > w-301 > items", ["c-9"]],
      ["orders > w-303 > items", ["m-3"]]
    ]
  },
  {
    name: "an order goes to the address of another order",
    steps: [
      calls(["get_order", { order: "w-302" }]),
      (seen) => calls(["change_address", { order: "w-301", address: seen.last("get_order", "address") }])
    ],
    after: [["orders > w-301 > address", "Mill Lane 7"]]
  },
  {
    name: "a customer who has several addresses of mail",
    steps: [
      calls(["find_user", { email: "ben@example.com" }], ["find_user", { email: "ben.a@example.com" }]),
      (seen) => calls(["get_user", { user: seen.last("find_user", 0) }]),
      (seen) =>
        calls(["return_items", { order: "w-202", items: ["s-4"], refund: seen.last("get_user", "payments", 0) }])
    ],
    after: [
      ["orders > w-202 > status", "return requested"],
      ["orders > w-202 > note", "s-4 to paypal-2"]
    ]
  },
  {
    name: "the supervisor denies to cancel an order, and its address changes",
    steps: [
      calls(["cancel_order", { order: "w-303", reason: "price" }]),
      calls(["change_address", { order: "w-303", address: "Quay 9" }])
    ],
    denied: "price",
    after: [["orders > w-303 > address", "Quay 9"]]
  },
  {
    name: "how many kinds of shirts are left",
    steps: [
      calls(["get_product", { product: "shirt" }]),
      (seen) => ({ object: { count: goods(seen.last("get_product")).length } })
    ],
    hasObject: true,
    after: []
  },
  {
    name: "all things come back to a payment that the customer chooses",
    steps: [
      calls(["get_user", { user: "ben" }], ["get_order", { order: "w-202" }]),
      calls(ask("To which payment?")),
      (seen) => {
        const items = seen.last("get_order", "items")
        return calls(["return_items", { order: "w-202", items, refund: seen.last("ask_user", "choice") }])
      }
    ],
    answers: { "To which payment?": "paypal-2" },
    after: [
      ["orders > w-202 > status", "return requested"],
      ["orders > w-202 > note", "m-1,s-4 to paypal-2"]
    ]
  },
  {
    name: "a clerk returns goods, and the supervisor is asked",
    steps: [
      calls(["clerk", { input: "returns" }]),
      calls(["change_address", { order: "w-101", address: "Elm Road 2" }])
    ],
    inner: {
      returns: [
        calls(["get_order", { order: "w-203" }]),
        calls(["return_items", { order: "w-203", items: ["t-1"], refund: "paypal-2" }])
      ]
    },
    after: [
      ["orders > w-203 > status", "return requested"],
      ["orders > w-203 > note", "t-1 to paypal-2"],
      ["orders > w-101 > address", "Elm Road 2"]
    ]
  },
  {
    name: "two clerks work at the same time",
    steps: [calls(["clerk", { input: "first" }], ["clerk", { input: "second" }])],
    inner: {
      first: [calls(["cancel_order", { order: "w-302", reason: "no longer needed" }])],
      second: [
        calls(["get_order", { order: "w-301" }]),
        calls(["change_payment", { order: "w-301", payment: "paypal-3" }])
      ]
    },
    after: [
      ["orders > w-302 > status", "cancelled"],
      ["orders > w-302 > note", "no longer needed"],
      ["orders > w-301 > payment", "paypal-3"]
    ]
  }
]

const airline: ReadonlyArray<Omit<Task, "source">> = [
  {
    name: "a booking is cancelled after a look at it",
    steps: [calls(["get_booking", { booking: "r-1" }]), calls(["cancel_booking", { booking: "r-1" }])],
    after: [["flights > r-1 > status", "cancelled"]]
  },
  {
    name: "two bags more, and a name that was misspelled",
    steps: [
      calls(["get_booking", { booking: "r-3" }]),
      (seen) =>
        calls(
          ["set_bags", { booking: "r-3", bags: number(seen.last("get_booking", "bags")) + 2 }],
          ["rename_traveller", { booking: "r-3", from: "Ken Itoo", to: "Ken Ito" }]
        )
    ],
    after: [
      ["flights > r-3 > bags", 4],
      ["flights > r-3 > names", ["Mei Ito", "Ken Ito"]]
    ]
  },
  {
    name: "a basic booking cannot be changed, and the customer has a certificate",
    steps: [
      calls(["change_cabin", { booking: "r-2", cabin: "business" }]),
      calls(["get_booking", { booking: "r-2" }]),
      (seen) => calls(["send_certificate", { user: seen.last("get_booking", "user"), amount: 50 }])
    ],
    after: [["certificates > ida", 50]]
  },
  {
    name: "all bookings of a customer in a cheaper cabin, with the sum of the refunds",
    steps: [
      calls(["get_user", { user: "mei" }]),
      (seen) =>
        calls(
          ...list(seen.last("get_user", "bookings")).map((booking): Call => [
            "change_cabin",
            { booking, cabin: "economy" }
          ])
        ),
      calls(["get_booking", { booking: "r-3" }], ["get_booking", { booking: "r-4" }]),
      (seen) => ({
        object: {
          count: 2200 - seen.all("get_booking").reduce<number>((sum, one) => sum + number(field(one, "paid")), 0)
        }
      })
    ],
    hasObject: true,
    after: [
      ["flights > r-3 > cabin", "economy"],
      ["flights > r-3 > paid", 700],
      ["flights > r-4 > cabin", "economy"],
      ["flights > r-4 > paid", 400]
    ]
  }
]

/** A member of an object. */
export function field(value: Schema.Json, name: string | number): Schema.Json {
  if (typeof value !== "object" || value === null) return null
  return Array.isArray(value)
    ? (value[Number(name)] ?? null)
    : (Object.entries(value).find(([key]) => key === name)?.[1] ?? null)
}

const phone: ReadonlyArray<Omit<Task, "source">> = [
  {
    name: "a message waits for cellular service, which waits for the battery saver",
    steps: [
      calls(["send_message", { to: "leo", text: "On my way" }]),
      calls(["set_setting", { name: "cellular", on: true }]),
      calls(["get_settings"]),
      calls(["set_setting", { name: "lowBattery", on: false }]),
      calls(["set_setting", { name: "cellular", on: true }]),
      calls(["send_message", { to: "leo", text: "On my way" }])
    ],
    after: [
      ["settings > lowBattery", false],
      ["settings > cellular", true],
      ["sent", [{ to: "+1 555 0102", text: "On my way" }]]
    ]
  },
  {
    name: "wireless is switched on",
    steps: [
      calls(["get_settings"]),
      (seen) => calls(["set_setting", { name: "lowBattery", on: seen.last("get_settings", "wifi") }]),
      calls(["set_setting", { name: "wifi", on: true }])
    ],
    after: [
      ["settings > lowBattery", false],
      ["settings > wifi", true]
    ]
  },
  {
    name: "a reminder for tomorrow",
    steps: [
      calls(["list_reminders"]),
      (seen) =>
        calls(["set_reminder", { id: "call", text: "Call Ana", at: number(seen.last("list_reminders", "now")) + 24 }])
    ],
    after: [["reminders > call", { text: "Call Ana", at: 124 }]]
  },
  {
    name: "the latest reminder comes a week later",
    steps: [
      calls(["list_reminders"]),
      (seen) => {
        const all = seen.last("list_reminders", "reminders")
        const [id = ""] = keys(all).toSorted(
          (a, b) => number(field(field(all, b), "at")) - number(field(field(all, a), "at"))
        )
        const { text: words, at } = { text: field(field(all, id), "text"), at: number(field(field(all, id), "at")) }
        return calls(["set_reminder", { id, text: words, at: at + 168 }])
      }
    ],
    after: [["reminders > rent", { text: "Pay the rent", at: 308 }]]
  },
  {
    name: "the reminders of the past go, in one answer",
    steps: [
      calls(["list_reminders"]),
      (seen) => {
        const all = seen.last("list_reminders", "reminders")
        const old = keys(all).filter(
          (id) => number(field(field(all, id), "at")) < number(seen.last("list_reminders", "now"))
        )
        return calls(...old.map((id): Call => ["remove_reminder", { id }]))
      }
    ],
    after: [["reminders > milk"], ["reminders > gift"]]
  },
  {
    name: "the brother has another number",
    steps: [
      calls(["find_contacts", { query: "brother" }]),
      (seen) => {
        const found = field(seen.last("find_contacts"), 0)
        const [id, name, relation] = [field(found, "id"), field(found, "name"), field(found, "relation")]
        return calls(["save_contact", { id, name, relation, phone: "+1 555 0199" }])
      }
    ],
    after: [["contacts > tom > phone", "+1 555 0199"]]
  },
  {
    name: "one of two friends with one name goes",
    steps: [
      calls(["find_contacts", { query: "park" }]),
      calls(ask("Leo or Lea?")),
      (seen) => calls(["remove_contact", { id: seen.last("ask_user", "choice") }])
    ],
    answers: { "Leo or Lea?": "lea" },
    after: [["contacts > lea"]]
  },
  {
    name: "all friends have a message",
    steps: [
      calls(["set_setting", { name: "lowBattery", on: false }]),
      calls(["set_setting", { name: "cellular", on: true }], ["find_contacts", { query: "friend" }]),
      (seen) =>
        calls(
          ...list(seen.last("find_contacts")).map((one): Call => [
            "send_message",
            { to: field(one, "id"), text: "Party!" }
          ])
        )
    ],
    after: [
      ["settings > lowBattery", false],
      ["settings > cellular", true],
      ["sent", ["+1 555 0102", "+1 555 0103"].map((to) => ({ to, text: "Party!" }))]
    ]
  },
  {
    name: "a meeting at an hour in which both are free",
    steps: [
      calls(["clerk", { input: "mine" }], ["clerk", { input: "hers" }]),
      calls(["list_events", { day: "monday", person: "me" }], ["list_events", { day: "monday", person: "ana" }]),
      (seen) => {
        const busy = new Set(seen.all("list_events").flatMap((hours) => list(hours).map(Number)))
        const hour = [9, 10, 11, 12].find((hour) => !busy.has(hour)) ?? 0
        return calls(["set_event", { id: "plan", title: "Plan", day: "monday", hour, with: ["ana", "me"] }])
      }
    ],
    inner: {
      mine: [calls(["list_events", { day: "monday", person: "me" }])],
      hers: [calls(["list_events", { day: "monday", person: "ana" }])]
    },
    after: [["events > plan", { title: "Plan", day: "monday", hour: 11, with: ["ana", "me"] }]]
  },
  {
    name: "how many reminders are due",
    steps: [
      calls(["list_reminders"]),
      (seen) => ({ object: { count: keys(seen.last("list_reminders", "reminders")).length - 2 } })
    ],
    hasObject: true,
    after: []
  },
  {
    name: "a reminder for the place where the user is",
    steps: [
      calls(["locate"], ["list_reminders"]),
      (seen) => calls(["set_reminder", { id: "here", text: "Come back", at: 200, place: seen.last("locate", "place") }])
    ],
    after: [["reminders > here", { text: "Come back", at: 200, place: "the harbour" }]]
  }
]

const files: ReadonlyArray<Omit<Task, "source">> = [
  {
    name: "a report moves, and its line for the north is searched",
    steps: [
      calls(["list_files", { folder: "/docs" }]),
      calls(["move_file", { from: "/docs/report.txt", to: "/archive/report.txt" }]),
      calls(["search_file", { path: "/archive/report.txt", word: "north" }]),
      (seen) => calls(["write_file", { path: "/docs/north.txt", content: text(seen.last("search_file", 0)) }])
    ],
    after: [
      ["files > /docs/report.txt"],
      ["files > /archive/report.txt", "totals\nnorth 12\nsouth 7"],
      ["files > /docs/north.txt", "north 12"]
    ]
  },
  {
    name: "names in order, and those that are new",
    steps: [
      calls(["read_file", { path: "/docs/names.txt" }], ["read_file", { path: "/docs/old-names.txt" }]),
      (seen) => {
        const [names = [], old = []] = seen.all("read_file").map((one) => text(one).split("\n"))
        return calls(
          ["write_file", { path: "/docs/names.txt", content: names.toSorted().join("\n") }],
          ["write_file", { path: "/docs/new.txt", content: names.filter((name) => !old.includes(name)).join("\n") }]
        )
      }
    ],
    after: [
      ["files > /docs/names.txt", "abe\nmia\nzoe"],
      ["files > /docs/new.txt", "mia"]
    ]
  },
  {
    name: "a copy under another name",
    steps: [
      calls(["copy_file", { from: "/docs/report.txt", to: "/tmp/report.txt" }]),
      calls(["move_file", { from: "/tmp/report.txt", to: "/tmp/final.txt" }])
    ],
    after: [["files > /tmp/final.txt", "totals\nnorth 12\nsouth 7"]]
  },
  {
    name: "the last line of a log is a file",
    steps: [
      calls(["read_file", { path: "/logs/app.log" }]),
      (seen) =>
        calls([
          "write_file",
          { path: "/logs/last.log", content: text(seen.last("read_file")).split("\n").at(-1) ?? "" }
        ])
    ],
    after: [["files > /logs/last.log", "stop"]]
  },
  {
    name: "the errors of a log are counted in the report",
    steps: [
      calls(["search_file", { path: "/logs/app.log", word: "error" }]),
      (seen) =>
        calls(["append_file", { path: "/docs/report.txt", line: `errors ${list(seen.last("search_file")).length}` }]),
      calls(["read_file", { path: "/docs/report.txt" }])
    ],
    after: [["files > /docs/report.txt", "totals\nnorth 12\nsouth 7\nerrors 2"]]
  },
  {
    name: "one of two drafts goes, because a person keeps the other one",
    steps: [
      calls(["list_files", { folder: "/drafts" }]),
      (seen) => calls(...list(seen.last("list_files")).map((path): Call => ["remove_file", { path }]))
    ],
    denied: "two.md",
    after: [["files > /drafts/one.md"]]
  },
  {
    name: "a head has a clerk write a summary, two agents deep",
    steps: [
      calls(["head", { input: "summary" }]),
      (seen) => calls(["append_file", { path: "/docs/report.txt", line: text(seen.last("head")) }])
    ],
    inner: {
      summary: [calls(["clerk", { input: "write" }]), calls(["remove_file", { path: "/drafts/one.md" }])],
      write: [
        calls(["read_file", { path: "/drafts/one.md" }]),
        (seen) => calls(["write_file", { path: "/docs/summary.md", content: `# ${text(seen.last("read_file"))}` }])
      ]
    },
    after: [
      ["files > /docs/summary.md", "# First thoughts"],
      ["files > /drafts/one.md"],
      ["files > /docs/report.txt", "totals\nnorth 12\nsouth 7\nIt is done: summary."]
    ]
  },
  {
    name: "a line at the end of two files",
    steps: [
      calls(
        ["append_file", { path: "/drafts/one.md", line: "Checked." }],
        ["append_file", { path: "/drafts/two.md", line: "Checked." }]
      )
    ],
    after: [
      ["files > /drafts/one.md", "First thoughts\nChecked."],
      ["files > /drafts/two.md", "Second thoughts\nChecked."]
    ]
  }
]

const from = (source: Task["source"], all: ReadonlyArray<Omit<Task, "source">>): ReadonlyArray<Task> =>
  all.map((task) => ({ ...task, source }))

export const tasks: ReadonlyArray<Task> = [
  ...from("τ-bench retail", retail),
  ...from("τ-bench airline", airline),
  ...from("ToolSandbox", phone),
  ...from("BFCL", files)
]
