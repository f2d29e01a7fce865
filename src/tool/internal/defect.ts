import * as Cause from "effect/Cause"
import * as Result from "effect/Result"

const className = (error: Error): string => {
  const own = error.constructor.name
  return own === "" || own === "Error" ? error.name : own
}

const read = (defect: unknown): string => {
  if (defect instanceof Error) return `${className(defect)}: ${defect.message}`
  return typeof defect === "object" || typeof defect === "function" ? "something that is not an Error" : String(defect)
}

/** `<Class>: <message>`, whatever was thrown, even an object whose members throw. */
export const describe = (defect: unknown): string =>
  Result.getOrElse(
    Result.try(() => read(defect)),
    () => "an error that cannot be described"
  )

/** The same for the first defect of a cause; interruption from inside has no class. */
export const describeCause = (cause: Cause.Cause<unknown>): string => {
  const die = cause.reasons.find(Cause.isDieReason)
  if (die !== undefined) return describe(die.defect)
  const fail = cause.reasons.find(Cause.isFailReason)
  return fail === undefined ? "it interrupted itself" : describe(fail.error)
}
