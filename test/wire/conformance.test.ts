import { describe, it } from "@effect/vitest"
import { LanguageModelConformance } from "effect-emissary/testing"
import { harness, providers, type Provider } from "./providers.ts"

describe("MODEL-3 MODEL-4 the adapter passes the suite against the real clients", () => {
  for (const [name, provider] of Object.entries<Provider>(providers)) {
    const { lacks } = provider
    for (const { check, name: title } of LanguageModelConformance.checks(name, harness(provider), {
      lacks,
      limit: "2 minutes"
    })) {
      it.live(title, () => check)
    }
  }
})
