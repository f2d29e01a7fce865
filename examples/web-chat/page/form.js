/** A form from a JSON Schema: texts, numbers, choices, marks and lists of marks. All other values are written as JSON. */

const isText = (value) => typeof value === "string"

const choicesOf = ({ const: one, enum: some = one === undefined ? [] : [one], anyOf = [] }) =>
  anyOf.length > 0 && anyOf.every((part) => choicesOf(part).length > 0) ? anyOf.flatMap(choicesOf) : some

const words = (name) => name.replaceAll("_", " ").replace(/^./, (letter) => letter.toUpperCase())

const labelOf = (name, { title }) => title ?? (name === "" ? "Answer" : words(name))

const kindOf = (schema) => {
  if (choicesOf(schema).length > 0) return "choice"
  if (schema.type === "boolean") return "mark"
  if (schema.type === "number" || schema.type === "integer") return "number"
  if (schema.type === "string") return "text"
  return schema.type === "array" && choicesOf(schema.items ?? {}).length > 0 ? "marks" : "json"
}

const types = { date: "date", "date-time": "datetime-local", email: "email", uri: "url", time: "time" }

const show = (choice) => (isText(choice) ? choice : JSON.stringify(choice))

let count = 0

/** The controls of a value, and the way to read it. `undefined` is no value. */
const controlsOf = {
  choice: (schema, h, id) => {
    const choices = choicesOf(schema)
    const options = choices.map((choice, index) => h("option", { value: String(index) }, show(choice)))
    const box = h("select", { id }, h("option", { value: "" }, "Choose…"), ...options)
    const index = choices.indexOf(schema.default)
    if (index >= 0) box.value = String(index)
    return { control: box, read: () => choices[box.value === "" ? -1 : Number(box.value)] }
  },
  mark: (schema, h, id) => {
    const box = h("input", { id, type: "checkbox", checked: schema.default === true })
    return { control: box, read: () => box.checked }
  },
  number: ({ default: value, maximum, minimum, type }, h, id) => {
    const step = type === "integer" ? "1" : "any"
    const box = h("input", { id, type: "number", step, min: minimum ?? "", max: maximum ?? "", value: value ?? "" })
    return { control: box, read: () => (box.value === "" ? undefined : Number(box.value)) }
  },
  text: ({ default: value = "", format, maxLength }, h, id, isNeeded) => {
    const box = h("input", { id, type: types[format] ?? "text", value, ...(maxLength && { maxLength }) })
    return { control: box, read: () => (box.value === "" && !isNeeded ? undefined : box.value) }
  },
  marks: ({ default: marked = [], items }, h, id) => {
    const choices = choicesOf(items)
    const boxes = choices.map((choice) => h("input", { type: "checkbox", checked: marked.includes(choice) }))
    const labels = boxes.map((box, index) => h("label", {}, box, show(choices[index])))
    return {
      control: h("div.marks", { id }, ...labels),
      read: () => choices.filter((_, index) => boxes[index].checked)
    }
  },
  json: ({ default: value }, h, id) => {
    const text = value === undefined ? "" : JSON.stringify(value, undefined, 2)
    const box = h("textarea", { id, rows: 4, value: text, placeholder: "JSON" })
    return {
      control: box,
      read: () => {
        if (box.value.trim() === "") return undefined
        try {
          return JSON.parse(box.value)
        } catch {
          return box.value
        }
      }
    }
  }
}

const fieldOf = (h, name, schema, isNeeded) => {
  const kind = kindOf(schema)
  const id = `field-${++count}`
  const { control, read } = controlsOf[kind](schema, h, id, isNeeded)
  const problem = h("p.problem", { id: `${id}-problem`, hidden: true })
  const hint = h("p.hint", { id: `${id}-hint` }, schema.description ?? "")
  const isGroup = kind === "marks"
  const target = isGroup ? control.querySelector("input") : control
  target.setAttribute("aria-describedby", `${hint.id} ${problem.id}`)
  if (isNeeded && !isGroup) control.setAttribute("aria-required", "true")
  const label = labelOf(name, schema) + (isNeeded || kind === "mark" || isGroup ? "" : " (optional)")
  const head = isGroup ? h("legend", {}, label) : h("label", { htmlFor: id }, label)
  const parts = kind === "mark" ? [h("div.mark", {}, control, head)] : [head, control]
  const element = h(isGroup ? "fieldset" : "div.field", {}, ...parts, schema.description ? hint : undefined, problem)
  const say = (text) => {
    problem.hidden = text === undefined
    problem.textContent = text ?? ""
    target.toggleAttribute("aria-invalid", text !== undefined)
    if (text !== undefined) target.setAttribute("aria-invalid", "true")
  }
  return { name, element, read, say, focus: () => target.focus() }
}

const pointer = (name) => `/${name.replaceAll("~", "~0").replaceAll("/", "~1")}`

/** A problem in the words of a person who fills in a form. */
const textOf = ({ expected, found }) =>
  found === "nothing" ? "An answer is needed here." : `Expected ${expected}, got ${found}.`

/**
 * The fields of a value with this JSON Schema. `read` returns the value. `say` shows problems at their fields, and returns the texts of
 * those that are about no field.
 */
export const formOf = (schema, h) => {
  const isObject = schema.type === "object" && schema.properties !== undefined
  const required = new Set(schema.required ?? [])
  const fields = isObject
    ? Object.entries(schema.properties).map(([name, member]) => fieldOf(h, name, member, required.has(name)))
    : [fieldOf(h, "", schema, true)]
  const read = () => {
    if (!isObject) return fields[0].read() ?? null
    const members = fields.map(({ name, read }) => [name, read()]).filter(([, value]) => value !== undefined)
    return Object.fromEntries(members)
  }
  const say = (problems) => {
    const left = new Set(problems)
    let first
    for (const field of fields) {
      const of = isObject ? pointer(field.name) : ""
      const own = problems.filter(({ path }) => !isObject || path === of || path.startsWith(`${of}/`))
      own.forEach((problem) => left.delete(problem))
      field.say(own.length === 0 ? undefined : own.map(textOf).join(" "))
      if (own.length > 0) first ??= field
    }
    first?.focus()
    return [...left].map(textOf)
  }
  return { elements: fields.map(({ element }) => element), read, say }
}
