/**
 * Law L14 of the pure ledger. `EMISSARY_TEST_FULL=1` runs a million random trees of runs, `npm test` some thousands.
 */
import { assert, describe, it } from "@effect/vitest"
import { Result } from "effect"
import * as ledger from "#src/run/internal/ledger.ts"
import { random, type Random } from "../random.ts"

interface Node {
  readonly parent: Node | undefined
  readonly price: ledger.Price | undefined
  account: ledger.Account | undefined
  reserved: ledger.Amounts | undefined
  isOpen: boolean
  /** Counted beside the ledger: what was used since each budget began, and what reports had above reservations. */
  readonly spent: Map<string, number>
  readonly above: Map<string, number>
  /** The limits of each budget, with what answers have granted. */
  readonly given: Map<string, number>
}

const units = ledger.Unit.literals

const valueOf = (amounts: ledger.Amounts, unit: ledger.Unit): number =>
  unit === "totalTokens" ? (amounts.inputTokens ?? 0) + (amounts.outputTokens ?? 0) : (amounts[unit] ?? 0)

const price: ledger.Price = { input: 0.15, output: 0.6, cacheRead: 0.015 }

const limitsIn = ({ below, chance }: Random): ledger.Amounts =>
  Object.fromEntries(units.flatMap((unit) => (chance(0.3) ? [[unit, below(chance(0.2) ? 3 : 200)]] : [])))

/** A tree of runs, in which the operations of the ledger happen in any order. */
const play = (seed: number) => {
  const { below, chance, pick } = random(seed)
  const rnd = { below, chance, pick } as Random
  const seen = { reserved: 0, refused: 0, above: 0, cut: 0, raised: 0 }
  const nodes: Array<Node> = []

  const fork = (parent: Node | undefined) => {
    const node: Node = {
      parent,
      price,
      account: undefined,
      reserved: undefined,
      isOpen: true,
      spent: new Map(),
      above: new Map(),
      given: new Map()
    }
    if (parent === undefined || chance(0.4)) open(node)
    nodes.push(node)
  }
  const open = (node: Node) => {
    const scope = pick(["run", "session", "tenant"])
    const before = node.account?.scopes.some((one) => one.scope === scope) === true
    const limits = limitsIn(rnd)
    const were = node.account?.scopes.find((one) => one.scope === scope)?.limits
    const onExceeded = chance(0.5) ? { onExceeded: "ask" as const } : undefined
    node.account = ledger.open(node.account, [{ scope, limits: { ...limits, ...onExceeded } }])
    const isNew = !before || scope !== ledger.session
    for (const unit of isNew ? units : []) node.spent.delete(`${scope}/${unit}`)
    for (const unit of units) {
      const key = `${scope}/${unit}`
      const granted = isNew ? 0 : (node.given.get(key) ?? 0) - (were?.[unit] ?? 0)
      node.given.set(key, (limits[unit] ?? 0) + granted)
    }
    // Limits that begin below what is held, or what a session has used, hold from there on
    for (const { limit, unit, used } of ledger
      .usages(node.account, heldIn(node))
      .filter((one) => one.scope === scope)) {
      node.above.set(`${scope}/${unit}`, Math.max(0, used - limit))
    }
  }
  const around = (node: Node | undefined): ReadonlyArray<Node> =>
    node === undefined ? [] : [...(node.account === undefined ? [] : [node]), ...around(node.parent)]
  const isIn = (node: Node | undefined, outer: Node): boolean =>
    node !== undefined && (node === outer || isIn(node.parent, outer))
  const heldIn = (outer: Node): ledger.Amounts => {
    let held: ledger.Amounts = {}
    for (const node of nodes) {
      if (node.isOpen && node.reserved !== undefined && isIn(node, outer)) held = ledger.add(held, node.reserved)
    }
    return held
  }
  const usagesAround = (node: Node) =>
    around(node).flatMap((one) => (one.account === undefined ? [] : ledger.usages(one.account, heldIn(one))))
  const charge = (node: Node, amounts: ledger.Amounts, reserved: ledger.Amounts = amounts) => {
    for (const one of around(node)) {
      if (one.account === undefined) continue
      one.account = ledger.charge(one.account, amounts)
      for (let near = ledger.nearing(one.account); near !== undefined; near = ledger.nearing(one.account)) {
        if (near.used * 5 < near.limit * 4) assert.fail(`${near.unit} of seed ${seed} is not near its limit`)
        one.account = ledger.report(one.account, near)
      }
      for (const { scope } of one.account.scopes) {
        for (const unit of units) {
          const [more, key] = [valueOf(amounts, unit), `${scope}/${unit}`]
          if (more === 0) continue
          one.spent.set(key, (one.spent.get(key) ?? 0) + more)
          const above = Math.max(0, more - valueOf(reserved, unit))
          one.above.set(key, (one.above.get(key) ?? 0) + above)
        }
      }
    }
  }
  const reserve = (node: Node) => {
    const before = usagesAround(node)
    const found = ledger.reserve(before, {
      inputTokens: below(40),
      outputTokens: 1 + below(80),
      ...(chance(0.9) && { price })
    })
    if (Result.isFailure(found)) {
      seen.refused += 1
      return before.includes(found.failure) ? undefined : assert.fail(`no limit refuses a call of seed ${seed}`)
    }
    // No call starts after a report above a reservation has passed a limit
    if (before.some(({ limit, used }) => used > limit)) assert.fail(`a call after the end of a budget of seed ${seed}`)
    seen.reserved += 1
    node.reserved = found.success
    charge(node, { modelCalls: 1 })
  }
  /** An answer to the question about the first limit of an account that asks. */
  const raise = (node: Node) => {
    const found = around(node).flatMap((one) => (one.account === undefined ? [] : [{ one, account: one.account }]))
    for (const { account, one } of found) {
      const asks = ledger.usages(account, heldIn(one), "of").find(({ more }) => more !== undefined)
      if (asks?.more === undefined) continue
      if (asks.more === 0 || asks.of !== "of") assert.fail(`a limit that grants nothing of seed ${seed}`)
      const more = chance(0.5) ? asks.more : 1 + below(50)
      one.account = ledger.raise(account, { ...asks, more })
      const key = `${asks.scope}/${asks.unit}`
      one.given.set(key, (one.given.get(key) ?? 0) + more)
      seen.raised += 1
      return
    }
  }
  const settle = (node: Node, reserved: ledger.Amounts) => {
    const report = chance(0.2)
      ? undefined
      : {
          ...(chance(0.9) && { inputTokens: below(60) }),
          ...(chance(0.9) && { outputTokens: below(chance(0.9) ? (reserved.outputTokens ?? 0) + 1 : 120) })
        }
    const used = ledger.settle(reserved, report, reserved.micros === undefined ? undefined : price)
    if (report === undefined && units.some((unit) => used[unit] !== reserved[unit])) {
      assert.fail(`a call without a report of seed ${seed}`)
    }
    if (units.some((unit) => valueOf(used, unit) > valueOf(reserved, unit))) seen.above += 1
    node.reserved = undefined
    charge(node, used, reserved)
  }

  fork(undefined)
  for (let step = 0; step < 14; step += 1) {
    const node = pick(nodes.filter(({ isOpen }) => isOpen))
    const { reserved } = node
    const dice = below(15)
    if (dice < 3 && nodes.length < 8) fork(node)
    else if (dice < 4) open(node)
    else if (dice === 14) raise(node)
    else if (dice < 5 && node.parent !== undefined) {
      // A merge with open calls inside is a refund of each
      for (const one of nodes) if (isIn(one, node)) one.isOpen = false
      seen.cut += 1
    } else if (dice < 6) {
      for (const one of nodes) {
        if (one.account === undefined || !one.isOpen) continue
        one.account = ledger.charge(one.account, { millis: 5 })
        for (const { scope } of one.account.scopes) {
          const key = `${scope}/millis`
          one.spent.set(key, (one.spent.get(key) ?? 0) + 5)
          one.above.set(key, (one.above.get(key) ?? 0) + 5)
        }
      }
    } else if (dice < 7) {
      if (ledger.refusesTool(usagesAround(node)) === undefined) charge(node, { toolCalls: 1 })
    } else if (reserved === undefined) reserve(node)
    else if (dice < 12) settle(node, reserved)
    else if (dice < 13) {
      // A call that was lost with its process
      node.reserved = undefined
      charge(node, reserved)
    } else node.reserved = undefined

    for (const one of nodes) {
      if (one.account === undefined) continue
      const held = one.isOpen ? heldIn(one) : {}
      for (const { limit, scope, unit, used } of ledger.usages(one.account, held)) {
        const key = `${scope}/${unit}`
        const isKept = used === (one.spent.get(key) ?? 0) + valueOf(held, unit)
        // Asserting each would take most of the time
        if (isKept && limit === one.given.get(key) && used <= limit + (one.above.get(key) ?? 0)) continue
        assert.fail(`${key} of seed ${seed}: ${used} used of ${limit}`)
      }
    }
  }
  return seen
}

const isFull = process.env["EMISSARY_TEST_FULL"] === "1"

describe("the ledger of budgets", () => {
  it("L14 MONEY-2 random trees of runs never use more than they were given, except above reservations, and lose nothing", () => {
    const total = { reserved: 0, refused: 0, above: 0, cut: 0, raised: 0 }
    for (let seed = 0; seed < (isFull ? 1_000_000 : 4_000); seed += 1) {
      const seen = play(seed)
      total.reserved += seen.reserved
      total.refused += seen.refused
      total.above += seen.above
      total.cut += seen.cut
      total.raised += seen.raised
    }
    assert.isTrue(
      Object.values(total).every((count) => count > 100),
      JSON.stringify(total)
    )
  }, 3_600_000)

  it("MONEY-2 a budget is whole numbers, and an option that is none is refused", () => {
    assert.deepStrictEqual(ledger.limitsOf({ money: 0.29, modelCalls: 3, time: "2 seconds" }), {
      micros: 290_000,
      modelCalls: 3,
      millis: 2000
    })
    assert.deepStrictEqual(ledger.limitsOf({}), {})
    assert.deepStrictEqual(ledger.limitsOf({ modelCalls: 1, onExceeded: "ask" }), { modelCalls: 1, onExceeded: "ask" })
    for (const wrong of [
      undefined,
      "much",
      { money: -1 },
      { modelCalls: 1.5 },
      { inputTokens: Number.NaN },
      { onExceeded: "wait" },
      { time: Infinity }
    ]) {
      assert.isUndefined(ledger.limitsOf(wrong), JSON.stringify(wrong))
    }
  })

  it("MONEY-2 an answer may cost what is left: the reservation of its tokens is cut to that", () => {
    const usage = (unit: ledger.Unit, limit: number, used: number) => ({ scope: "run", unit, limit, used })
    const reserve = (around: ReadonlyArray<ledger.Usage>) =>
      ledger.reserve(around, { inputTokens: 100, outputTokens: 1000, price: { input: 1, output: 10 } })
    const given = (outputTokens: number) =>
      Result.succeed({ inputTokens: 100, outputTokens, micros: 100 + outputTokens * 10 })
    assert.deepStrictEqual(reserve([]), given(1000))
    assert.deepStrictEqual(reserve([usage("outputTokens", 50, 20)]), given(30))
    assert.deepStrictEqual(reserve([usage("totalTokens", 150, 20)]), given(30))
    assert.deepStrictEqual(reserve([usage("micros", 425, 20)]), given(30))
    assert.deepStrictEqual(reserve([usage("micros", 125, 20)]), Result.fail(usage("micros", 125, 20)))
    assert.deepStrictEqual(reserve([usage("inputTokens", 99, 0)]), Result.fail(usage("inputTokens", 99, 0)))
    assert.deepStrictEqual(reserve([usage("modelCalls", 2, 2)]), Result.fail(usage("modelCalls", 2, 2)))
    assert.deepStrictEqual(reserve([usage("toolCalls", 2, 2)]), given(1000))
  })

  it("MONEY-2 what a provider does not report counts as it was reserved", () => {
    const reserved = { inputTokens: 100, outputTokens: 10, micros: 200 }
    const price = { input: 1, output: 10, cacheRead: 0.1 }
    assert.deepStrictEqual(ledger.settle(reserved, undefined, price), reserved)
    assert.deepStrictEqual(ledger.settle(reserved, { outputTokens: 20 }, price), {
      inputTokens: 100,
      outputTokens: 20,
      micros: 300
    })
    const cached = { inputTokens: 100, outputTokens: 1, cacheReadTokens: 90 }
    assert.strictEqual(ledger.settle(reserved, cached, price).micros, 10 + 9 + 10)
  })
})
