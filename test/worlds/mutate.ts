/**
 * Loads the code from `src` with one mutant in it: `MUTANT=<name> node --import ./test/worlds/mutate.ts …`. Without `MUTANT` the code is
 * as it is. No file changes.
 */
import { registerHooks } from "node:module"
import { mutated, mutants } from "./mutants.ts"

const root = new URL("../../", import.meta.url)
const name = process.env["MUTANT"]
const mutant = mutants.find((one) => one.name === name)
if (name !== undefined && mutant === undefined) throw new Error(`expected the name of a mutant, got ${name}`)
const place = mutant === undefined ? undefined : new URL(mutant.file, root).href

registerHooks({
  resolve: (specifier, context, next) => {
    const [, path] = /^effect-emissary(?:\/(.*))?$/.exec(specifier) ?? []
    const isOurs = specifier.startsWith("effect-emissary")
    return isOurs
      ? next(new URL(`src/${path === undefined ? "" : `${path}/`}index.ts`, root).href, context)
      : next(specifier, context)
  },
  load: (url, context, next) => {
    const loaded = next(url, context)
    return mutant === undefined || url !== place
      ? loaded
      : { ...loaded, source: mutated(mutant, String(loaded.source)) }
  }
})
