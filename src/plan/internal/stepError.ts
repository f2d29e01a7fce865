/** What a function's own schemas refuse. The tags are what a run tells as the type of the failure. */
import * as Schema from "effect/Schema"

const fields = { target: Schema.String, problems: Schema.String }

/** The payload does not fit the input schema of the function. */
export class InputInvalid extends Schema.TaggedError<InputInvalid>("effect-emissary/plan/InputInvalid")(
  "InputInvalid",
  fields
) {
  override get message(): string {
    return `The function ${JSON.stringify(this.target)} cannot take what it is given. ${this.problems}`
  }
}

/** The answer does not fit the output schema of the function. */
export class OutputInvalid extends Schema.TaggedError<OutputInvalid>("effect-emissary/plan/OutputInvalid")(
  "OutputInvalid",
  fields
) {
  override get message(): string {
    return `The function ${JSON.stringify(this.target)} gave something else than it says. ${this.problems}`
  }
}
