import { describe, it } from "@effect/vitest"
import { Conformance } from "effect-emissary/testing"
import { makeDirectory } from "./store/directory.ts"
import * as layers from "./store/layers.ts"

const directory = makeDirectory()

// The rows P09, P10, P11 and P12 of the golden tables are among the rules: a version is expected, and never a value.
describe("CONV-9 every layer of VersionedStore keeps its rules", () => {
  for (const { durable, layer, name } of layers.all(directory)) {
    for (const { check, name: rule } of Conformance.versionedStore(name, layer, { durable })) {
      it.live(rule, () => check)
    }
  }
})
