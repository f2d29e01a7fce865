/** Which names steps and keys may have. */

export const maxNameLength = 200

const identifier = /^[\p{L}\p{N}_][\p{L}\p{N}_-]*$/u

/** Control characters, and halves of characters. */
const control = /[\p{Cc}\p{Cs}]/u

const isShort = (name: string): boolean => name.length <= maxNameLength

/** The rule of version 3 and of `Step.make`, and of every name that a reference holds. */
export const isIdentifier = (name: string): boolean => isShort(name) && identifier.test(name)

export const identifierRule = `letters, digits and "_", then "-" too, at most ${maxNameLength} characters`

/** The rule of step names in versions 1 and 2. */
export const isPlainText = (name: string): boolean => isShort(name) && !control.test(name)

export const plainTextRule = `text without control characters, at most ${maxNameLength} characters`
