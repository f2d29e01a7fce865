/**
 * Tasks with calls that need an approval, as data. They are written for this test: their facts are invented, and their shape is the one
 * of a study of 47 requests (parts of BFCL version 4 and of the retail desk of tau2-bench, and lists of 5 to 50 entries), in which
 * 25 requests change something, by 106 calls.
 */
export interface Task {
  readonly name: string
  /** An answer of a model, or the members of a parallel group of a plan. */
  readonly by: "answers" | "plan"
  /** The number of calls that read, before the first change. */
  readonly reads: number
  /** The calls that change something. The calls of one list are ready together, the next list needs their results. */
  readonly waves: ReadonlyArray<ReadonlyArray<Change>>
}

export interface Change {
  readonly tool: (typeof tools)[number]
  readonly about: string
}

export const tools = [
  "refund",
  "exchange",
  "cancel",
  "address",
  "mail",
  "ticket",
  "book",
  "move",
  "post",
  "sell"
] as const

const each = (tool: Change["tool"], ...about: ReadonlyArray<string>): ReadonlyArray<Change> =>
  about.map((one) => ({ tool, about: one }))

const many = (tool: Change["tool"], what: string, count: number): ReadonlyArray<Change> =>
  each(tool, ...Array.from({ length: count }, (_, index) => `${what} ${index + 1}`))

const answers = (name: string, reads: number, ...waves: Task["waves"]): Task => ({ name, by: "answers", reads, waves })

const plan = (name: string, reads: number, ...waves: Task["waves"]): Task => ({ name, by: "plan", reads, waves })

export const tasks: ReadonlyArray<Task> = [
  // A retail desk
  answers("another size of the boots", 3, each("exchange", "boots to size 43")),
  answers("another colour of the lamp and of the desk", 4, each("exchange", "lamp to white", "desk to oak")),
  answers("a pending order goes to the office", 2, each("address", "order 8665 to the office")),
  answers("two orders are cancelled, the third is sent back", 4, [
    ...each("cancel", "order 11", "order 12"),
    ...each("refund", "order 13")
  ]),
  answers("the address of the account and of both open orders", 3, each("address", "account", "order 21", "order 22")),
  answers("the cheapest tablet in place of the returned one", 5, each("refund", "tablet"), each("mail", "new tablet")),
  // Turns of an assistant with files, a calendar and a car
  answers("the report goes to the archive", 1, each("move", "report to archive")),
  answers("drafts of three reviews go to one folder", 1, many("move", "draft", 3)),
  answers("a note about the move", 1, each("post", "the archive has moved")),
  answers("a flight and its insurance", 2, [...each("book", "flight to Oslo", "insurance for it")]),
  answers("a flight is cancelled, and the ticket says so", 2, [
    ...each("cancel", "flight"),
    ...each("ticket", "refund it")
  ]),
  answers("a message to the colleague", 1, each("mail", "meeting at three")),
  answers("sell one share", 1, each("sell", "one of ACME")),
  plan("a room, a table and a car for the visit", 0, each("book", "room", "table", "car")),
  // Lists
  answers(
    "late orders of a customer: refunds up to 200, tickets above, then one mail",
    3,
    [...many("refund", "late order", 8), ...many("ticket", "large late order", 2)],
    each("mail", "what was refunded")
  ),
  answers("invitations for the people of two countries", 6, many("mail", "invitation", 12)),
  answers("papers of the year go to folders by month", 2, many("move", "paper", 12)),
  answers("positions with a loss of a tenth are sold", 2, many("sell", "position", 6)),
  answers("double bookings are cancelled", 2, many("cancel", "double booking", 5)),
  // Hard ones
  plan("the same text for four channels", 0, each("post", "news", "forum", "list", "board")),
  plan("a trip: parts first, then the mails about them", 0, many("book", "part", 4), many("mail", "part", 4)),
  answers("unanswered tickets get a reminder", 2, many("mail", "reminder", 7)),
  answers("rooms for a workshop, in two buildings", 3, many("book", "workshop room", 5)),
  answers("broken parcels: exchange, or refund what is sold out", 4, [
    ...many("exchange", "broken parcel", 5),
    ...many("refund", "sold out", 3)
  ]),
  answers("a campaign and its post", 3, each("post", "campaign"), each("mail", "link to it"))
]
