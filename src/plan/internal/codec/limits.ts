/** How large a plan may be. `Limits` holds for its JSON besides. */
export const maxSteps = 1_000
export const maxRoutes = 256
export const maxContext = 256
/** Regular expressions of conditions: each takes time to compile. */
export const maxPatterns = 64
export const maxIterations = 1_000_000
export const defaultMaxIterations = 100
export const defaultName = "plan"
