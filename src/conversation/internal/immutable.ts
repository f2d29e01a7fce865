// Messages copied and frozen here. They can be shared by any number of conversations.
const owned = new WeakSet<object>()

/**
 * The message itself if it came from here, otherwise a frozen deep copy: whatever
 * happens later to the object that was passed in, the conversation does not change.
 */
export const message = <M extends object>(self: M): M => {
  if (owned.has(self)) return self
  const copied = copy(self)
  owned.add(copied)
  return copied
}

const isContainer = (value: unknown): value is Container => {
  if (typeof value !== "object" || value === null) return false
  if (Array.isArray(value)) return true
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === Object.prototype || prototype === null
}

type Container = Record<string, unknown> | Array<unknown>

// Iterative, because the JSON in a tool result may be nested deeper than the stack.
const copy = <A>(self: A): A => {
  if (!isContainer(self)) return self
  const froms: Array<Container> = [self]
  const copies: Array<Container> = [Array.isArray(self) ? [] : {}]
  const copyOf = (value: unknown): unknown => {
    if (!isContainer(value)) return value
    const inner: Container = Array.isArray(value) ? [] : {}
    froms.push(value)
    copies.push(inner)
    return inner
  }
  for (let next = 0; next < froms.length; next++) {
    const from = froms[next]
    const to = copies[next]
    if (from === undefined || to === undefined) continue
    if (Array.isArray(from)) {
      if (Array.isArray(to)) for (const item of from) to.push(copyOf(item))
    } else if (!Array.isArray(to)) {
      copyFields(from, to, copyOf)
    }
  }
  for (const container of copies) Object.freeze(container)
  // The first copy has the own enumerable data of `self`, key by key, so it has its type
  return copies[0] as A
}

const copyFields = (
  from: Record<string, unknown>,
  to: Record<string, unknown>,
  copyOf: (value: unknown) => unknown
): void => {
  for (const key of Object.keys(from)) {
    const value = copyOf(from[key])
    // Assigning to "__proto__" would set the prototype
    if (key === "__proto__") Object.defineProperty(to, key, { value, enumerable: true })
    else to[key] = value
  }
}
