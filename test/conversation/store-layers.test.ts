import { describe, it } from "@effect/vitest"
import { Layer } from "effect"
import { ConversationStore } from "effect-emissary"
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
