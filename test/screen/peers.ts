/** The published clients in tests. Where they are not installed, a test names the command. */
import { assert, it } from "@effect/vitest"
import type { Observable } from "rxjs"
import { install, type Packages, packages } from "./packages.ts"

export const missing: string | undefined = packages === undefined ? install : undefined

/** The packages, in a test that is run only where they are installed. */
export const peers = (): Packages => {
  assert(packages !== undefined)
  return packages
}

/** Adds a test with the reason why nothing is tested, which fails where the packages have to be there. */
export const sayMissing = (what: string): void => {
  it.runIf(missing !== undefined)(`${what} without its published client nothing is tested`, () => {
    assert.notStrictEqual(process.env["EMISSARY_SCREEN"], "required", missing)
    process.stderr.write(`${what} was not tested with its published client: ${missing}\n`)
  })
}

export const from = <A>(values: ReadonlyArray<A>) => peers().rxjs.from(values)

export const collect = <A>(values: Observable<A>): Promise<ReadonlyArray<A>> =>
  peers().rxjs.firstValueFrom(values.pipe(peers().rxjs.toArray()))
