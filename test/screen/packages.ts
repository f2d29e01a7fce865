/** The published clients of the protocols of front ends. They are packages of this folder, which a machine may not have. */
const load = async () => {
  const [ai, react, agui, rxjs] = await Promise.all([
    import("ai"),
    import("@ai-sdk/react"),
    import("@ag-ui/client"),
    import("rxjs")
  ])
  return { ai, react, agui, rxjs }
}

export type Packages = Awaited<ReturnType<typeof load>>

export const packages: Packages | undefined = await load().catch(() => undefined)

/** The command that installs them. */
export const install = "npm ci --prefix test/screen"
