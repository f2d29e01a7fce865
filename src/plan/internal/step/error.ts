/** What a function's own schemas refuse, in the words of `PayloadError`. The tags are what a run tells as the type of the failure. */
import * as Schema from "effect/Schema"

const fields = { target: Schema.String, problems: Schema.String }

/** The payload does not fit the input schema of the function. */
export class InputInvalid extends Schema.TaggedError<InputInvalid>("effect-emissary/plan/InputInvalid")(
  "InputInvalid",
  fields
) {
  override get message(): string {
    return this.problems
  }
}

/** The answer does not fit the output schema of the function. */
export class OutputInvalid extends Schema.TaggedError<OutputInvalid>("effect-emissary/plan/OutputInvalid")(
  "OutputInvalid",
  fields
) {
  override get message(): string {
    return this.problems
  }
}

/** The function of a step gave no Effect. `found` is what it gave, in a word. */
export class NotAnEffect extends Schema.TaggedError<NotAnEffect>("effect-emissary/plan/NotAnEffect")("NotAnEffect", {
  target: Schema.String,
  found: Schema.String
}) {
  override get message(): string {
    return `expected the function of ${JSON.stringify(this.target)} to return an Effect, found ${this.found}`
  }
}
