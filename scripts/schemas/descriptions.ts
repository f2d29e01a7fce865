/**
 * The texts that an editor shows for the members of a definition. The key is the member, or the document, that holds them. A test
 * demands one for each member of an agent and of a plan.
 */

const $schema = "The schema of this file, for editors. It is not read."

const agent = {
  name: "The name of the agent.",
  model:
    'The model as "provider/model", or several that are tried in order; default the model of the program that runs the agent.',
  instructions: "The system message of a fresh conversation.",
  model_options: "Sampling and limits for the model, such as temperature. URLs, headers and keys are refused.",
  max_steps: 'The number of model calls for each message of the user, or "unlimited"; default 16.',
  reasoning: "The amount of reasoning before the answer.",
  output: "The form of the final answer; default text.",
  context: "The JSON Schema of the context that each run needs.",
  retry: "Retries of model calls.",
  timeouts: "Limits of the time of each attempt of a model call, in milliseconds.",
  tool_choice:
    'The tools that the model may or must call in its first call, or with "every" in every call: "auto", "none", "required", one tool, or one of several.',
  concurrency: 'The number of tool calls of one answer that run at a time, or "unbounded".',
  budget: "The most that a run may use for each message of the user.",
  repeated_calls: 'The limits for a model that repeats the same calls with the same results; "unlimited" for none.',
  guards: "The names of the guards of the agent, which the host provides.",
  per_run: "The parts that are found anew for each run.",
  tools: "The tools that the model may call. Names are unique."
}

export const descriptions: { readonly [place: string]: { readonly [member: string]: string } } = {
  "agent-2": { $schema, schema_version: "The version of this format: 2.", ...agent },
  Agent: agent,
  tools: {
    name: "The name by which the model calls the tool.",
    description: "The purpose of the tool, for the model.",
    parameters: "The JSON Schema of the arguments.",
    success: "The JSON Schema of the result.",
    failure: "The JSON Schema of a failure.",
    timeout: 'The time of a call in milliseconds, or "infinity"; default 10000, and "infinity" for an agent.',
    approval:
      'The approval that a call needs from a person: "never" (default), "always", or "dynamic", where `request.when` or the code of the tool decides.',
    request: "The terms of the request for an approval.",
    client:
      'Present for a tool without code: a front end makes the call ("call"), or a person answers it ("question").',
    annotations: "Hints about the tool.",
    digest: "The digest of the contract. Leave it out of a file that is written by hand.",
    agent: "The definition of the agent that the tool is, or passes the conversation on to.",
    handoff: "Present for a tool whose call passes the conversation on to another agent."
  },
  handoff: {
    agent: "The name of the agent that answers from there on.",
    turns: "The number of the newest turns that the agent sees; default all.",
    tool_calls: "false leaves out the calls of tools and their results; default: the agent sees them."
  },
  request: {
    when: "The condition under which a call needs an approval, as JSON of a condition.",
    deciders: "The people or roles who may decide; default all.",
    expires_after: "The time in milliseconds after which a request is denied, or has the answer in otherwise.",
    otherwise: "The answer of a question that has no answer in time."
  },
  annotations: {
    title: "A title for people.",
    readonly: "The tool changes nothing; default false.",
    destructive: "The tool may destroy something; default true.",
    idempotent: "A second call with the same arguments changes nothing; default false.",
    open_world: "The tool reaches systems outside; default true.",
    strict: "The arguments are exactly those of the schema.",
    polls: "The tool is called again and again until something has happened."
  },
  output: {
    schema: "A JSON Schema.",
    strategy:
      'The way in which the model learns the schema: "native" (default), the constrained decoding of its provider; "prompted", a part of the system message; "tool", a tool that it calls with its answer.',
    name: "The name of the schema in a registry."
  },
  input: { schema: "A JSON Schema.", name: "The name of the schema in a registry." },
  retry: {
    times: "The number of retries, at most.",
    delay: "The pause before the first retry, in milliseconds.",
    factor: "The pause is multiplied by it after each retry.",
    max_delay: "The longest pause, in milliseconds."
  },
  timeouts: {
    model: "The time until the answer is whole.",
    first_chunk: "The time until the first piece of the answer.",
    chunk: "The time between two pieces of the answer."
  },
  tool_choice: {
    tool: "The name of the one tool to call.",
    mode: '"required" where the model has to call one; default "auto".',
    one_of: "The names of the tools to choose from.",
    every: "The choice for every model call."
  },
  every: {
    tool: "The name of the one tool to call.",
    mode: '"required" where the model has to call one; default "auto".',
    one_of: "The names of the tools to choose from."
  },
  budget: {
    on_exceeded: 'The end of a run that reaches a limit: "stop" (default), or "ask" for a question to a person.',
    input_tokens: "The tokens of all requests.",
    output_tokens: "The tokens of all answers.",
    total_tokens: "The tokens of all requests and answers.",
    micros: "Money, in millionths of the currency of the host's prices.",
    model_calls: "The number of requests to models.",
    tool_calls: "The number of tool calls.",
    millis: "The time in which the run is under way, in milliseconds."
  },
  repeated_calls: {
    note: "The number of equal rounds after which the model gets a note; default 3.",
    end: "The number of equal rounds after which the run ends; default 5."
  },
  "plan-3": {
    $schema,
    version: "The version of this format: 3.",
    name: "The name of the plan.",
    description: "The purpose of the plan, for people and for models that call it.",
    max_iterations: "The number of steps and parallel groups that a run may take; default 100.",
    output: "The schema of the answer of the plan.",
    steps:
      "The steps. The first one starts the plan, and each is followed by the next one unless a route leads elsewhere."
  },
  steps: {
    name: "The name of the step: an identifier that no other step has.",
    target: "The function, tool or agent that the step runs.",
    task: "The text that the step works on; default the answer of the step before, or the input of the plan.",
    context: "Text beside the task, from one reference or several.",
    writes: "The key under which the result of the run has the answer.",
    parallel: "True for a member of a parallel group: parallel neighbours run together.",
    input: "The schema of the payload of the step.",
    output: "The schema that the answer has to fit.",
    routes: "Steps to continue with, tried in order; without one whose condition holds, the next step follows.",
    routes_by: "The field of the output that holds the name of the next step, in place of conditions.",
    after_branches: "The name of the step that the branches of the routes end in.",
    timeout: "The time of each try, in milliseconds.",
    retry: "The policy by which a failed step is tried again."
  },
  target: {
    kind: 'A "tool" or an agent that the plan is bound with, an "agent", or a "function" of the registry.',
    name: "The name of the target."
  },
  task: {
    kind: "The kind of the reference.",
    name: "The step of the reference, or the agent of from_memory and from_agent.",
    value: "The text itself."
  },
  context: {
    kind: "The kind of the reference.",
    name: "The step of the reference, or the agent of from_memory and from_agent.",
    value: "The text itself."
  },
  routes: { to: "The name of the step to continue with.", when: "The condition on the answer." },
  When: {
    kind: "The kind of the condition.",
    path: "The keys and indexes that lead to the value in the answer.",
    value: "The value to compare with; for the kind text, the whole answer.",
    values: "The values to choose from.",
    pattern: "A regular expression that runs in linear time.",
    conditions: "The conditions inside.",
    condition: "The condition inside.",
    name: "The name of a predicate of the registry."
  }
}
