/**
 * The rules of plans: for each code of a problem the expectation, and the way to mend what breaks it.
 */

import * as retryPolicy from "../../run/internal/retryPolicy.ts"
import * as planNames from "./planNames.ts"

export const rules = {
  DuplicateNames: ["unique names", "Rename all but one step of each name"],
  InvalidName: [`1 to ${planNames.maxNameLength} characters, none of them a control character`, "Write another name"],
  InvalidLimit: [
    `a whole number from 0 to ${planNames.maxIterations}`,
    "Set a number in these limits; a step counts as one, and a parallel group as one"
  ],
  UnknownStep: ["a step of the plan", "Name a step of the plan"],
  SameBand: [
    "a step outside of its own parallel group",
    "Refer to a step before the group, or put a step that is not parallel between them"
  ],
  NotEarlier: ["an earlier step", "Refer to an earlier step, or put that step before this one"],
  NotParallel: ["the first step of a parallel group", "Make the step parallel, or use fromStep"],
  NotFirstOfBand: [
    "the first step of a parallel group",
    "Refer to the first step of the group, or use fromParallel for one step of it"
  ],
  IncompatibleTypes: [
    "an input that can be what the task reads",
    "Change the input, the output of that step, or the task"
  ],
  RoutesAndRoutesBy: [
    "routes or routesBy, which are mutually exclusive",
    "Use routes for conditions, or routesBy for a field that names the step"
  ],
  RouteToParallel: [
    "a step that is not parallel",
    "Route to a step that is not parallel and comes right before the parallel group"
  ],
  InvalidRoutesBy: [
    "a field of the output whose values are names of steps",
    `Declare a field with these values in the output schema, as in Schema.Literals(["next", "stop"])`
  ],
  RejoinWithoutRoutes: ["a step with routes or routesBy", "Add routes or routesBy, or remove afterBranches"],
  RejoinNotLater: ["a later step", "Rejoin at a later step, or route back without afterBranches"],
  RejoinIntoBand: ["the first step of a parallel group", "Rejoin at the first step of the group"],
  RejoinBeforeRoute: [
    "a step after all steps that the routes lead to",
    "Declare that step between the router and the rejoin, or rejoin later"
  ],
  UnreachableStep: ["a step that some run comes to", "Route to it, move it, or remove it"],
  WritesCollision: ["a key that no other step of the parallel group writes", "Write different keys"],
  InvalidOption: ["a value of the type that Step.make declares for it", "Change it"],
  InvalidDuration: [`a duration such as "30 seconds"`, "Write it so"],
  InvalidRetry: [retryPolicy.expected, "Change the retry"],
  SchemaNotRepresentable: ["a schema that has a JSON Schema", "Use another schema"],
  SharedTargetName: [
    "one target of one name",
    `Use one value in both steps, or name them differently: Step.target("another_name", ...)`
  ],
  InvalidCondition: ["a condition that can be evaluated", "Change the condition"],
  UnknownPredicate: ["a predicate of the plan", "Add it to `predicates` of Plan.make"],
  NotJson: ["JSON", "Remove the value"],
  UnknownTool: ["a tool or an agent of the plan", "Bind the plan with it"],
  UnknownAgent: ["an agent of the plan", "Bind the plan with it and with its memory"],
  AmbiguousTarget: ["a tool or an agent", "Bind the plan with one of them, or rename one"],
  ProviderTool: ["a tool that runs here", "Use an agent with that tool"],
  ToolArguments: [
    "a tool that takes what the step passes",
    "Supply an input schema of the step, whose object is then the arguments of the tool, or change it"
  ],
  ContextNotTaken: [
    "a tool that takes the context of the step",
    "Remove context from the step, or add a parameter for the context to the tool"
  ],
  NotAnAgent: ["an agent", "Refer to an agent"],
  NoMemory: ["an agent with a memory", "Bind the plan with a memory for it that has a text"],
  NoStore: ["an agent whose answers are kept in a store", "Bind the plan with a memory for it that keeps its output"],
  MissingEntry: ["an entry of the registry", "Add it to the registry"],
  WrongEntry: ["an entry of that kind", "Change the entry"],
  DifferentSchema: [
    "an entry with the schema of the plan",
    "Rename the entry, or leave it out to use the schema of the plan"
  ],
  AmbiguousEntry: ["one entry", "Remove one of them"],
  UnusableEntry: ["an entry that can be used", "Change the entry"],
  RoutingIgnored: [
    "no routing in a parallel step, since the step after the parallel group follows",
    "Remove it, or route from a step after the group"
  ]
} as const satisfies { readonly [code: string]: readonly [expected: string, fix: string] }
