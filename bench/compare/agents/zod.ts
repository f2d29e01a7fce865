/** The parameters of the tools, for the rows whose library takes schemas of zod. */
import { z } from "zod"
import { units, type Task } from "./task.ts"

export const Parameters = z.object({ city: z.string(), days: z.number().int(), units: z.enum(units) })

const ExtraParameters = () =>
  z.object({
    a: z.string(),
    b: z.string(),
    c: z.number().int(),
    d: z.number(),
    e: z.boolean(),
    f: z.enum(["x", "y", "z"]),
    g: z.array(z.string()),
    h: z.string().nullable(),
    i: z.object({ street: z.string(), city: z.string(), zip: z.string() }),
    j: z.array(z.object({ id: z.number().int(), n: z.number().int() }))
  })

/** The tools that are offered and never called, made by the function of the library. */
export const extraTools = <A>(
  { tools }: Task,
  make: (name: string, description: string, parameters: ReturnType<typeof ExtraParameters>) => A
): ReadonlyArray<A> =>
  Array.from({ length: tools - 1 }, (_, index) =>
    make(`extra_tool_${index}`, `Extra tool number ${index}`, ExtraParameters())
  )
