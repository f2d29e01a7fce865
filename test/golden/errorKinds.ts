/** The part of an error that the table compares. */
interface Facts {
  /** The `_tag` of the error. */
  readonly tag: string
  /** The `_tag` of its `reason`, if it has one. */
  readonly reason: string | undefined
  /** The issues of an `Invalid` reason. */
  readonly issues: ReadonlyArray<{ readonly path: string; readonly expected: string }>
  /** The codes of the problems of a plan. */
  readonly codes: ReadonlyArray<string>
  /** The part of a tool that a `ToolContractError` is about. */
  readonly part: string | undefined
}

const read = (value: unknown, key: string): unknown =>
  typeof value === "object" && value !== null && key in value ? Reflect.get(value, key) : undefined

const text = (value: unknown): string | undefined => (typeof value === "string" ? value : undefined)

const factsOf = (error: unknown): Facts => {
  const reason = read(error, "reason")
  const issues = read(reason, "issues")
  const problems = read(error, "problems")
  return {
    tag: text(read(error, "_tag")) ?? "",
    reason: text(read(reason, "_tag")) ?? text(reason),
    issues: Array.isArray(issues)
      ? issues.map((issue) => ({ path: String(read(issue, "path")), expected: String(read(issue, "expected")) }))
      : [],
    codes: Array.isArray(problems) ? problems.map((problem) => String(read(problem, "code"))) : [],
    part: text(read(error, "part"))
  }
}

/** An issue at a path, and with this expectation where one path has several. */
const issue =
  (path: RegExp, expected: RegExp = /./u) =>
  (facts: Facts): boolean =>
    facts.tag === "PayloadError" && facts.issues.some((one) => path.test(one.path) && expected.test(one.expected))

const tag =
  (tag: string, reason?: string) =>
  (facts: Facts): boolean =>
    facts.tag === tag && (reason === undefined || facts.reason === reason)

/** The registry of a plan lacks entries, or has them as another kind. */
const namesEntries = ({ codes }: Facts): boolean =>
  codes.some((code) => code.endsWith("Entry") || code === "DifferentSchema")

/**
 * The one table from errors of the library to the error kinds of
 * `VOCABULARY.md` and `plan-cases.md`. One row for each error of the library that means the kind.
 */
const table: ReadonlyArray<readonly [kind: string, matches: (facts: Facts) => boolean]> = [
  ["UnsupportedVersion", tag("PayloadError", "UnsupportedVersion")],
  ["UnsupportedVersion", issue(/^$/u, /the field "schema_version"/u)],
  ["MalformedJson", tag("PayloadError", "NotJson")],
  ["InvalidModel", issue(/^\/model$/u)],
  ["InvalidModel", tag("ModelRegistryError", "InvalidModelName")],
  ["UnknownProvider", tag("ModelRegistryError", "UnknownProvider")],
  ["InvalidInstructions", issue(/^\/instructions$/u)],
  ["InvalidReasoning", issue(/^\/reasoning$/u)],
  ["InvalidStrategy", issue(/^\/structured_output_strategy$/u)],
  ["InvalidMaxSteps", issue(/^\/max_steps$/u)],
  ["MissingToolName", issue(/^\/tools\/\d+\/name$/u, /^the name of the tool/u)],
  ["MissingToolName", (facts) => facts.tag === "ToolContractError" && facts.part === "name"],
  ["MissingToolDescription", issue(/^\/tools\/\d+\/description$/u)],
  ["DuplicateToolName", issue(/^\/tools\/\d+\/name$/u, /no other tool/u)],
  ["UnsupportedJsonSchema", issue(/^\/(tools\/\d+\/parameters_schema|structured_output)(\/|$)/u)],
  ["UnsupportedJsonSchema", tag("JsonSchemaError")],
  ["NoUserMessage", tag("AgentError", "ConversationInvalid")],
  ["StrictSchema", tag("JsonSchemaError", "NotStrict")],
  ["InvalidRole", tag("ConversationError", "UnknownRole")],
  ["UnknownRole", tag("ConversationError", "UnknownRole")],
  ["MisplacedSystemMessage", tag("ConversationError", "MisplacedSystem")],
  ["InvalidKeepRecent", tag("ConversationError", "InvalidKeepRecent")],
  ["OrphanToolResult", tag("ConversationError", "OrphanResult")],
  ["OrphanToolResult", tag("ConversationError", "DuplicateResult")],
  ["MissingToolCallId", tag("ConversationError", "MissingCallId")],
  ["UnansweredToolCall", tag("ConversationError", "OpenCalls")],
  ["EmptyMessage", tag("ConversationError", "EmptyContent")],
  ["InvalidMetadata", issue(/^\/(\d+\/tool_calls|tokens)(\/|$)/u)],
  ["UnansweredToolCall", tag("RenderError", "UnansweredCalls")],
  ["AssistantFirst", tag("RenderError", "AssistantFirst")],
  ["EmptyMessage", tag("RenderError", "EmptyMessage")],
  ["EmptySystemPrompt", tag("RenderError", "EmptySystem")],
  ["InvalidToolArguments", tag("RenderError", "InvalidArguments")],
  // the classes that the recordings of plans raised
  ["PlanCompileError", (facts) => facts.tag === "PlanInvalid" && !namesEntries(facts)],
  ["KeyError", namesEntries],
  ["KeyError", tag("PayloadError")],
  ["ValueError", tag("PayloadError")],
  ["TypeError", tag("PayloadError")],
  ["AttributeError", tag("PayloadError")]
]

/** The kinds of an error; one error can hold several problems. */
export const kinds = (error: unknown): ReadonlyArray<string> => {
  const facts = factsOf(error)
  return table.filter(([, matches]) => matches(facts)).map(([kind]) => kind)
}
