/** Looking names up in the registries of one call, and keeping what is wrong. */
import * as Option from "effect/Option"
import * as Names from "../../../payload/Names.ts"
import type { AnyPredicate, AnyTarget, PlanRegistry } from "../../PlanRegistry.ts"
import type { Entry } from "../../RegistryIncomplete.ts"
import type { StepSchema } from "../../Target.ts"
import * as Similarity from "../names/similarity.ts"

/** Which place names it. */
export interface Place {
  readonly path: string
  readonly step?: string
}

type Kind = Entry["registry"]

export interface Lookup {
  readonly target: (name: string) => AnyTarget | undefined
  readonly predicate: (name: string) => AnyPredicate | undefined
  readonly route: (step: string, to: string) => AnyPredicate | undefined
  readonly schema: (name: string) => StepSchema | undefined
  readonly entries: Array<Entry>
  readonly refuse: (entry: Pick<Entry, "code" | "registry" | "name" | "expected" | "problem">, place: Place) => void
}

const member = <A>(record: { readonly [name: string]: A } | undefined, name: string): A | undefined =>
  record === undefined ? undefined : Option.getOrUndefined(Names.get(record, name))

export const make = (registry: PlanRegistry): Lookup => {
  const entries: Array<Entry> = []
  const known: { readonly [K in Kind]: ReadonlyArray<string> } = {
    targets: Object.keys(registry.targets ?? {}).sort(),
    predicates: [
      ...Object.keys(registry.predicates ?? {}),
      ...Object.entries(registry.routes ?? {}).flatMap(([step, targets]) =>
        Object.keys(targets).map((to) => `routes:${step}:${to}`)
      )
    ].sort(),
    schemas: Object.keys(registry.schemas ?? {}).sort()
  }
  const budget = Similarity.budget(1_000_000)
  return {
    target: (name) => member(registry.targets, name),
    predicate: (name) => member(registry.predicates, name),
    route: (step, to) => member(member(registry.routes, step), to),
    schema: (name) => member(registry.schemas, name),
    entries,
    refuse: (entry, place) => {
      const available = known[entry.registry]
      const suggestion = entry.code === "Missing" ? Similarity.closest(entry.name, available, budget) : undefined
      entries.push({ ...entry, ...place, available, ...(suggestion === undefined ? {} : { suggestion }) })
    }
  }
}
