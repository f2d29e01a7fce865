import type { Message } from "../Message.ts"

// Messages copied and frozen here. They can be shared by any number of conversations.
const owned = new WeakSet<object>()

/**
 * The message itself if it came from here, otherwise a frozen deep copy: whatever
 * happens later to the object that was passed in, the conversation does not change.
 */
export const message = <M extends Message>(self: M): M => {
  if (owned.has(self)) return self
  const copied = copy(self)
  owned.add(copied)
  return copied
}

const isContainer = (value: unknown): value is Record<string, unknown> | Array<unknown> => {
  if (typeof value !== "object" || value === null) return false
  if (Array.isArray(value)) return true
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === Object.prototype || prototype === null
}

const shell = (value: Record<string, unknown> | Array<unknown>): Record<string, unknown> | Array<unknown> =>
  Array.isArray(value) ? Array.from<unknown>({ length: value.length }) : {}

// Iterative, because the JSON in a tool result may be nested deeper than the stack.
export const copy = <A>(self: A): A => {
  if (!isContainer(self)) return self
  const root = shell(self)
  const pending: Array<[from: object, to: object]> = [[self, root]]
  const done: Array<object> = []
  let next = pending.pop()
  while (next !== undefined) {
    const [from, to] = next
    for (const [key, value] of Object.entries(from)) {
      let target: unknown = value
      if (isContainer(value)) {
        const inner = shell(value)
        pending.push([value, inner])
        target = inner
      }
      // defineProperty, because assigning to "__proto__" would set the prototype
      Object.defineProperty(to, key, { value: target, enumerable: true, writable: true, configurable: true })
    }
    done.push(to)
    next = pending.pop()
  }
  for (const container of done) Object.freeze(container)
  // `root` has the own enumerable data of `self`, key by key, so it has its type
  return root as A
}
