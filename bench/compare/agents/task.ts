/** The work of every row: the same prompt, tool, answers of the model and results, and what the gate observes of it. */

export interface Task {
  /** Answers of the model that call tools, before the one with text. */
  readonly steps: number
  /** Calls in each of them. */
  readonly calls: number
  /** Tools that the model is offered. It calls the first. */
  readonly tools: number
  readonly modelMilliseconds: number
  readonly toolMilliseconds: number
  /** Calls of one answer that may run at once. */
  readonly concurrency: number
  /** The model sends arguments that the schema of the tool refuses. */
  readonly invalid: boolean
}

export const makeTask = (part: Partial<Task>): Task => ({
  steps: 10,
  calls: 1,
  tools: 1,
  modelMilliseconds: 0,
  toolMilliseconds: 0,
  concurrency: Infinity,
  invalid: false,
  ...part
})

/** Makes what a row needs once, and returns one run of its agent. */
export type Row = (task: Task) => Promise<() => Promise<string>>

export const system = "You are an assistant that can use tools to answer questions."
export const question = "What is the weather on my trip?"
export const answer = "All done: the weather is fine."
export const toolName = "lookup_weather"
export const toolDescription = "Look up the weather for a city"
export const units = ["celsius", "fahrenheit"] as const

export interface Parameters {
  readonly city: string
  readonly days: number
  readonly units: (typeof units)[number]
}

export interface Call {
  readonly id: string
  /** The arguments as a model sends them: JSON text. */
  readonly json: string
}

const valid = (step: number, call: number) =>
  `{"city":"City ${step}-${call}","days":${1 + (step % 7)},"units":"celsius"}`
const invalid = (step: number, call: number) => `{"city":"City ${step}-${call}","days":"three","units":"kelvin"}`

export const callsOf = (task: Task, step: number): ReadonlyArray<Call> => {
  const json = task.invalid ? invalid : valid
  return Array.from({ length: task.calls }, (_, call) => ({ id: `call_${step}_${call}`, json: json(step, call) }))
}

export const observed = {
  modelCalls: 0,
  toolCalls: 0,
  running: 0,
  mostRunning: 0,
  lastPrompt: undefined as unknown,
  onCall: undefined as ((parameters: Parameters) => void) | undefined
}

/** The mock model of a row calls it first. */
export const modelCalled = (prompt: unknown): void => {
  observed.modelCalls += 1
  observed.lastPrompt = prompt
}

export const toolStarted = (parameters: Parameters): void => {
  observed.toolCalls += 1
  observed.running += 1
  if (observed.running > observed.mostRunning) observed.mostRunning = observed.running
  observed.onCall?.(parameters)
}

export const toolFinished = ({ city }: Parameters) => {
  observed.running -= 1
  return { city, temperature: 21.5, ok: true }
}

export const sleep = (milliseconds: number): Promise<void> =>
  new Promise((resolve) => {
    setTimeout(resolve, milliseconds)
  })

/** The body of the tool, for the rows that are not written with Effect. */
export const toolBody = ({ toolMilliseconds }: Task) =>
  toolMilliseconds === 0
    ? async (parameters: Parameters) => {
        toolStarted(parameters)
        return toolFinished(parameters)
      }
    : async (parameters: Parameters) => {
        toolStarted(parameters)
        await sleep(toolMilliseconds)
        return toolFinished(parameters)
      }
