import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { ConversationStore, VersionedStore } from "effect-emissary"
import { Conformance } from "effect-emissary/testing"

import { makeDirectory } from "./store/directory.ts"
import * as layers from "./store/layers.ts"

const all = layers.all(makeDirectory())

// The rows P09, P10, P11 and P12 of the golden tables are among the rules: a version is expected, and never a value.
describe("CONV-9 every layer of VersionedStore keeps its rules", () => {
  for (const { durable, layer, name } of all) {
    for (const { check, name: rule } of Conformance.versionedStore(name, layer, { durable })) {
      it.live(rule, () => check)
    }
  }

  it.live("the rule of limits is named in the error of a store that takes any", () => {
    const lenient = Layer.effect(
      VersionedStore.VersionedStore,
      Effect.map(VersionedStore.VersionedStore, (store) => ({ ...store, list: () => store.list() }))
    )
    const checks = Conformance.versionedStore("s", Layer.provide(lenient, VersionedStore.layerMemory), {})
    const rule = checks.filter(({ name }) => name.includes("limits that are not integers from 1"))
    return Effect.map(Effect.flip(Effect.forEach(rule, ({ check }) => check)), ({ message }) =>
      assert.match(
        message,
        /limits that are not integers from 1 .*: list with the limit 0: expected VersionedStoreError/
      )
    )
  })
})

describe("CONV-9 a ConversationStore on every layer of VersionedStore keeps its rules", () => {
  for (const { durable, layer, name } of all) {
    // Small segments: every rule meets conversations in pieces
    for (const segmentSize of name === "memory" ? [1, 2, 5, 32] : [3]) {
      const store = ConversationStore.layer({ segmentSize, namespace: `segments of ${segmentSize}` })
      const label = `${name}, segments of ${segmentSize}`
      const suite = Conformance.conversationStore(label, Layer.provide(store, layer), { durable })
      for (const { check, name: rule } of suite) it.live(rule, () => check)
    }
  }
})
