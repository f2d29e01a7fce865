/** The states of a turn (KEEP-5): neither its progress nor its course moves back. */
import { assert, describe, it } from "@effect/vitest"
import { Cause } from "effect"
import { nextCourse, nextProgress, type Course, type Progress } from "#src/session/internal/turns.ts"

const progress: ReadonlyArray<Progress> = [
  { _tag: "Claiming" },
  { _tag: "Preparing" },
  { _tag: "Begun" },
  { _tag: "Ended", isCancelled: false }
]

const refused: Course = { _tag: "Refused", cause: Cause.empty }

const course: ReadonlyArray<Course> = [{ _tag: "Free" }, { _tag: "Stopping" }, { _tag: "Muted" }, refused]

/** The further of two states, of all pairs of a list from the first to the last. */
const furthest = <A>(all: ReadonlyArray<A>, next: (self: A, next: A) => A) =>
  all.flatMap((self, a) => all.map((other, b) => next(self, other) === (b > a ? other : self) || a === b))

describe("KEEP-5 the states of a turn", () => {
  it("KEEP-5 a turn never moves back", () => {
    assert.isTrue([...furthest(progress, nextProgress), ...furthest(course, nextCourse)].every(Boolean))
  })

  it("KEEP-5 the denial of calls that waited is known after the end, and the first refusal is kept", () => {
    const cancelled: Progress = { _tag: "Ended", isCancelled: true }
    assert.strictEqual(nextProgress({ _tag: "Ended", isCancelled: false }, cancelled), cancelled)
    assert.strictEqual(nextCourse(refused, { _tag: "Refused", cause: Cause.die("later") }), refused)
  })
})
