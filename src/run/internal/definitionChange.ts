/**
 * A state that is resumed under another definition: what changed, and if the run may continue.
 */

import * as Result from "effect/Result"
import { appendToken, own } from "../../payload/internal/values.ts"
import * as ToolContract from "../../tool/ToolContract.ts"
import type * as runParts from "./runParts.ts"
import * as runTransition from "./runTransition.ts"

/** The changes of a definition under which a state is resumed: none, changes that break no open call, or all. */
export type OnChange = "refuse" | "compatible" | "accept"

type Changes = ReadonlyArray<ToolContract.Change>

/** The definition that resumes. */
export interface Current {
  readonly agent: string
  readonly digest: string
  readonly parts: runParts.Parts
  readonly structured: runParts.StructuredSteps
}

/** The digest of the definition that a state was last run with. */
export const definitionOf = ({ basis, definition }: runParts.State): string => basis?.definition ?? definition

/** The changes of a part, with their paths in the whole. */
export const inPart = (path: string, changes: Changes): Changes =>
  changes.map((change) => ({ ...change, path: path + change.path }))

/** The digest of a part in a list of parts. */
export const shortDigest = (digest: string): string => digest.replace("sha256:", "").slice(0, 12)

/** The parts that differ. A different part alone breaks nothing. */
export const compareParts = (was: runParts.Parts, now: runParts.Parts): Changes => {
  const paths = new Set([...Object.keys(was), ...Object.keys(now)])
  return Array.from(paths).flatMap((path) => {
    const [left = "nothing", right = "nothing"] = [own(was, path), own(now, path)]
    return left === right ? [] : [{ path, was: left, now: right, breaking: false }]
  })
}

/**
 * True for a settled call, for which nothing runs, and for a call that started and was lost, which runs again under the
 * same contract only.
 */
const needsNoTool = ({ status }: runParts.OpenCall): boolean =>
  status._tag === "Settled" || (status._tag === "Started" && status.child === undefined)

/** The changes of the contracts of the open calls that need a tool. */
export const callChanges = (
  state: runParts.State,
  contractOf: (name: string) => ToolContract.ToolContract | undefined
): Changes => {
  const seen = new Set<string>()
  return state.calls.flatMap((call) => {
    const { contract: digest = "", part } = call
    const { name } = part
    const key = `${digest} ${name}`
    if (needsNoTool(call) || seen.has(key)) return []
    seen.add(key)
    const [was, now] = [runTransition.contractOf(state, digest), contractOf(name)]
    const path = appendToken("/tools", name)
    if (was !== undefined && now !== undefined) {
      return was.digest === now.digest ? [] : inPart(path, ToolContract.compare(was, now))
    }
    if (was === undefined && now === undefined) return []
    return [
      {
        path,
        was: was === undefined ? "no recorded contract" : "the tool of an open call",
        now: now === undefined ? "nothing" : shortDigest(now.digest),
        breaking: true
      }
    ]
  })
}

/** All changes: of the name, of what is open, and of the parts that are not in those. */
export const changesOf = (state: runParts.State, now: Current, inside: Changes): Changes => {
  const renamed = state.agent === now.agent ? [] : [{ path: "/name", was: state.agent, now: now.agent, breaking: true }]
  const whole = { path: "", was: shortDigest(definitionOf(state)), now: shortDigest(now.digest), breaking: false }
  const known = state.basis?.parts
  const parts = known === undefined ? [whole] : compareParts(known, now.parts)
  const covers = ({ path }: ToolContract.Change) =>
    path !== "" && inside.some((one) => one.path === path || one.path.startsWith(`${path}/`))
  return [...renamed, ...inside, ...parts.filter((part) => !covers(part))]
}

/** True if a run may continue under these changes. */
export const isAllowed = (changes: Changes, onChange: OnChange): boolean =>
  onChange === "accept" || (onChange === "compatible" && !changes.some(({ breaking }) => breaking))

/** The record of the new definition of a resumed run, or the error that refuses it. */
export const judge = (
  state: runParts.State,
  now: Current,
  changes: Changes,
  onChange: OnChange = "compatible"
): Result.Result<runParts.DefinitionChange, runTransition.DefinitionChanged> => {
  const { digest: definition, parts, structured } = now
  if (!isAllowed(changes, onChange)) {
    return Result.fail(
      new runTransition.DefinitionChanged({ expected: definition, found: definitionOf(state), changes })
    )
  }
  return Result.succeed({
    definition,
    parts,
    changes,
    ...(structured === state.structured ? undefined : { structured })
  })
}
