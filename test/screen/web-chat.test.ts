/** The page of `npm run example web-chat` in a browser. */
import { afterAll, assert, beforeAll, describe, it } from "@effect/vitest"
import type { Browser, BrowserContextOptions, Locator, Page } from "playwright-core"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { requireBuild, root } from "../package/run.ts"
import { launch, meet, missing, openSite, sayMissing, type Person, type Site } from "./browser.ts"
import { openModel, type HeldModel } from "./model.ts"

const example = "examples/web-chat/main.ts"

const chat = (page: Page): Locator => page.getByRole("log", { name: "Conversation" })

const answers = (page: Page): Locator => page.getByRole("article", { name: "Assistant" })

const lastAnswer = (page: Page): Locator => answers(page).last()

/** Waits until a model is writing, and has written something. */
const writing = async (page: Page, text: string): Promise<void> =>
  page.locator("[data-status=writes]").getByRole("article", { name: "Assistant" }).last().getByText(text).waitFor()

const rest = (page: Page): Promise<void> => page.locator("[data-status=rests]").waitFor()

const message = (page: Page): Locator => page.getByRole("textbox", { name: "Message", exact: true })

const write = async (page: Page, text: string): Promise<void> => {
  await message(page).fill(text)
  await message(page).press("Enter")
}

/** The texts of the messages of the user. */
const asked = (page: Page): Promise<Array<string>> =>
  page.getByRole("article", { name: "You" }).locator("p").allInnerTexts()

/** A picture of one pixel. */
const dot = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="

const story = "They went home, each with a copy of the same book, and all copies were equal."

/** The parts of the long answer, in their order and each once. */
const assertWhole = async (page: Page): Promise<void> => {
  const text = await lastAnswer(page).innerText()
  let from = 0
  for (const part of [
    "The lighthouse",
    "A lamp may go out.",
    "nobody sent it twice",
    "lines lost",
    "book.last()",
    story
  ]) {
    const at = text.indexOf(part)
    assert.isAtLeast(at, from, `${part} in:\n${text}`)
    assert.strictEqual(text.lastIndexOf(part), at, `${part} twice in:\n${text}`)
    from = at
  }
}

sayMissing()

describe.runIf(missing === undefined)("SCREEN-8 the chat in a browser", { concurrent: true }, () => {
  requireBuild()
  let browser: Browser
  let site: Site
  beforeAll(async () => {
    browser = await launch()
    site = await openSite(example)
  })
  afterAll(async () => {
    await browser.close()
    await site.close()
  })

  interface Settings {
    readonly options?: BrowserContextOptions
    readonly settings?: Readonly<Record<string, string>>
    /** Has a server of its own. */
    readonly own?: boolean
  }

  const visit = (
    name: string,
    run: (person: Person, at: Site) => Promise<void>,
    { options, settings, own = settings !== undefined }: Settings = {}
  ) =>
    it(`${name}`, async () => {
      const at = own ? await openSite(example, settings) : site
      const person = await meet(browser, at.url, options)
      try {
        await run(person, at)
        assert.deepStrictEqual(person.problems, [])
      } finally {
        await person.context.close()
        if (own) await at.close()
      }
    })

  /** Visits a server whose model stops at these texts until the test lets the answer continue. */
  const visitHeld = (
    name: string,
    stops: ReadonlyArray<string>,
    run: (person: Person, model: HeldModel, at: Site) => Promise<void>,
    { options, settings }: Settings = {}
  ) =>
    it(`${name}`, async () => {
      const model = await openModel(...stops)
      const at = await openSite(example, { ...model.settings, ...settings })
      const person = await meet(browser, at.url, options)
      try {
        await run(person, model, at)
        assert.deepStrictEqual(person.problems, [])
      } finally {
        await person.context.close()
        await at.close()
        model.close()
      }
    })

  visitHeld(
    "SCREEN-7 text appears while the model writes, as Markdown, and a reload in the middle loses nothing",
    ["There was a lighthouse keeper"],
    async ({ page }, model) => {
      await page.getByRole("button", { name: "Tell me a story" }).click()
      await writing(page, "There was a lighthouse keeper")
      await page.reload()
      await writing(page, "There was a lighthouse keeper")
      model.go()
      await rest(page)
      await assertWhole(page)
      const answer = lastAnswer(page)
      assert.strictEqual(await answer.locator("strong, em").count(), 4)
      assert.strictEqual(await answer.locator("blockquote, h4, ul > li, table td").count(), 1 + 1 + 3 + 6)
      assert.strictEqual(
        await answer.locator("pre code").innerText(),
        'const next = book.last() + 1\nbook.write(next, "A ship from Lisbon, with tea")'
      )
      await page.reload()
      await answer.getByText(story).waitFor()
      await assertWhole(page)
    }
  )

  visitHeld(
    "SCREEN-7 a message that is sent without a connection is kept, and an answer that was cut continues",
    ["I am an assistant"],
    async ({ context, page }, model, at) => {
      await write(page, "Hello")
      await writing(page, "I am an assistant")
      at.cut()
      await page.getByText("The connection is lost").waitFor()
      await write(page, "Thank you")
      await page.getByText("Is sent…").waitFor()
      const address = page.url()
      await page.close()
      at.mend()
      page = await context.newPage()
      await page.goto(address)
      await writing(page, "I am an assistant")
      model.go()
      await chat(page).getByText("You are welcome.").waitFor()
      await rest(page)
      assert.isTrue(await page.getByText("The connection is lost").isHidden())
      assert.deepStrictEqual(await asked(page), ["Hello", "Thank you"])
      assert.include(await answers(page).first().innerText(), "kill the server")
    }
  )

  visit("SCREEN-7 a page that is offline says so, and sends what waits when it is back", async ({ context, page }) => {
    await context.setOffline(true)
    await page.getByText("You are offline").waitFor()
    await write(page, "Thank you")
    await page.getByText("Is sent…").waitFor()
    await context.setOffline(false)
    await chat(page).getByText("You are welcome.").waitFor()
    assert.isTrue(await page.getByText("You are offline").isHidden())
    assert.deepStrictEqual(await asked(page), ["Thank you"])
  })

  visitHeld(
    "a second tab shows the same text while it is written, and decides for both",
    ["I am an assistant"],
    async ({ context, page }) => {
      await write(page, "Refund order 42")
      await page.getByText("May I refund?").waitFor()
      const second = await context.newPage()
      await second.goto(page.url())
      assert.include(
        await second.getByRole("form", { name: "Decision about refund" }).innerText(),
        '{"order":"42","amount":25}'
      )
      await second.getByRole("button", { name: "Approve" }).click()
      await chat(page).getByText("Done: 25 EUR are paid back for order 42.").waitFor()
      assert.strictEqual(await page.getByText("May I refund?").count(), 0)
      await write(second, "Hello")
      await Promise.all([writing(page, "I am an assistant"), writing(second, "I am an assistant")])
      await second.getByRole("button", { name: "Stop" }).click()
      await Promise.all([page.getByText("Stopped.").waitFor(), second.getByText("Stopped.").waitFor()])
      assert.strictEqual(await lastAnswer(page).innerText(), await lastAnswer(second).innerText())
    }
  )

  visit(
    "PEOPLE-2 several calls that wait have one form above their own, and it decides all of them",
    async ({ page }) => {
      await write(page, "Refund orders 41, 42 and 43")
      const all = page.getByRole("form", { name: "Decision about all 3" })
      await all.waitFor()
      assert.strictEqual(await page.getByRole("form", { name: "Decision about refund" }).count(), 3)
      assert.include(await all.innerText(), '{"order":"43","amount":25}')
      const first = page.getByRole("form", { name: /Decision about/ }).first()
      assert.include(await first.innerText(), "May I do all 3 of these?")
      // One of them by itself: the others are another list
      await page
        .getByRole("form", { name: "Decision about refund" })
        .first()
        .getByRole("button", { name: "Deny" })
        .click()
      const rest = page.getByRole("form", { name: "Decision about all 2" })
      await rest.waitFor()
      await rest.getByRole("button", { name: "Approve all" }).click()
      await chat(page).getByText("I did not do it").waitFor()
      assert.strictEqual(await page.getByRole("form", { name: /Decision about/ }).count(), 0)
      assert.strictEqual(await page.locator("summary").filter({ hasText: "done" }).count(), 2)
    }
  )

  visit(
    "SCREEN-7 a call that is denied with a reason does not run, and the question survives a reload",
    async ({ page }) => {
      await write(page, "Refund order 42")
      await page.getByText("May I refund?").waitFor()
      await page
        .getByRole("link", { name: /Refund order 42/ })
        .getByText("needs you")
        .waitFor()
      await page.reload()
      await page.getByRole("textbox", { name: "Reason" }).fill("She was paid already.")
      await page.getByRole("button", { name: "Deny" }).click()
      await lastAnswer(page).locator("blockquote").getByText("She was paid already.").waitFor()
      await rest(page)
      await page.locator("summary").filter({ hasText: "denied" }).click()
      assert.include(await page.locator("details").innerText(), "She was paid already.")
      // The fold stays open while more is written
      await write(page, "Thank you")
      await chat(page).getByText("You are welcome.").waitFor()
      assert.isTrue(await page.locator("details").evaluate((fold) => fold.hasAttribute("open")))
    }
  )

  visit(
    "PEOPLE-1 a question is a form of its Schema, which has its problems at its fields",
    async ({ context, page }) => {
      await write(page, "Order tea")
      const form = page.getByRole("form", { name: "Question: What may I bring you?" })
      await form.waitFor()
      await page.reload()
      await form.getByRole("button", { name: "Answer" }).click()
      const cups = form.getByRole("spinbutton", { name: "Cups" })
      await form.locator("[aria-invalid=true]").first().waitFor()
      // By the keyboard: the first field with a problem has the focus
      assert.strictEqual(await page.evaluate(() => document.activeElement?.tagName), "SELECT")
      await page.keyboard.press("ArrowDown")
      await page.keyboard.press("ArrowDown")
      await page.keyboard.press("Tab")
      await page.keyboard.type("12")
      await page.keyboard.press("Tab")
      await page.keyboard.press("Tab")
      await page.keyboard.press("Space")
      await form.getByRole("checkbox", { name: "Wrap it as a gift" }).check()
      await page.keyboard.press("Enter")
      await form.getByText("Expected at most 9").waitFor()
      assert.strictEqual(await form.locator("[aria-invalid=true]").count(), 1)
      assert.strictEqual(await cups.getAttribute("aria-invalid"), "true")
      const second = await context.newPage()
      await second.goto(page.url())
      await second.getByRole("form", { name: "Question: What may I bring you?" }).waitFor()
      await cups.fill("2")
      await form.getByRole("button", { name: "Answer" }).click()
      const order = '{"size":"medium","cups":2,"extras":["lemon"],"gift":true}'
      await chat(page).getByText(order).last().waitFor()
      await chat(second).getByText(order).last().waitFor()
      assert.strictEqual(await second.getByRole("form", { name: /^Question/ }).count(), 0)
    }
  )

  visit("PEOPLE-1 the page makes the calls of its tools, in two tabs once", async ({ context, page }) => {
    const second = await context.newPage()
    await write(page, "Hello")
    await chat(page).getByText("kill the server").waitFor()
    await rest(page)
    await second.goto(page.url())
    await chat(second).getByText("kill the server").waitFor()
    await write(page, "What time is it?")
    await chat(page).getByText("For you it is").waitFor()
    await chat(second).getByText("For you it is").waitFor()
    await rest(second)
    assert.strictEqual(await page.getByRole("form", { name: /^Question/ }).count(), 0)
  })

  visitHeld(
    "SCREEN-7 what was written stays when a turn is stopped, by the keyboard alone",
    ["There was a lighthouse keeper"],
    async ({ page }) => {
      await page.keyboard.press("Tab")
      assert.strictEqual(await page.evaluate(() => document.activeElement?.textContent), "Skip to the message")
      await page.keyboard.press("Enter")
      await page.keyboard.type("Tell me a story")
      await page.keyboard.press("Enter")
      await writing(page, "There was a lighthouse keeper")
      await page.keyboard.press("Escape")
      await page.getByText("Stopped.").waitFor()
      const text = await lastAnswer(page).innerText()
      assert.include(text, "There was a lighthouse keeper")
      await page.reload()
      await page.getByText("Stopped.").waitFor()
      assert.strictEqual(await lastAnswer(page).innerText(), text)
    }
  )

  visit(
    "SCREEN-7 a message that is sent while tools are at work is read",
    async ({ page }) => {
      await write(page, "Research tea")
      await page.getByText("I look at the history of tea.").waitFor()
      await write(page, "Thank you")
      await page.getByText("Is read next").waitFor()
      // The turn reads it after the tool that runs, and before it asks the model again
      await chat(page).getByText('You say "Thank you", so I leave it at that').waitFor()
      assert.deepStrictEqual(await asked(page), ["Research tea", "Thank you"])
      await rest(page)
      assert.isTrue(await page.getByText("Is read next").isHidden())
    },
    { settings: { PACE: "3" } }
  )

  visitHeld("SCREEN-7 a message that waits can be withdrawn", ["I look at the history"], async ({ page }) => {
    await write(page, "Research tea")
    await page.getByText("I look at the history").waitFor()
    await write(page, "Never mind")
    await page.getByText("Is read next").waitFor()
    await page.getByRole("button", { name: "Withdraw" }).click()
    await page.getByText("Is read next").waitFor({ state: "hidden" })
    await page.keyboard.press("Escape")
    await page.getByText("Stopped.").waitFor()
    assert.deepStrictEqual(await asked(page), ["Research tea"])
  })

  visit(
    "SCREEN-7 a turn that failed is asked again",
    async ({ page }) => {
      await write(page, "Fail once")
      const failure = page.getByRole("group", { name: "The turn failed" })
      await failure.waitFor()
      assert.strictEqual(await page.getByText("This will not go well").count(), 0)
      await page.reload()
      await failure.getByRole("button", { name: "Ask again" }).click()
      await chat(page).getByText("It went well this time.").waitFor()
    },
    { own: true }
  )

  visit("SCREEN-7 messages are edited and asked again, and a chat is forked, renamed and removed", async ({ page }) => {
    await write(page, "Thank you")
    await chat(page).getByText("You are welcome.").waitFor()
    await rest(page)
    await write(page, "one")
    await chat(page).getByText("Say help").waitFor()
    await rest(page)

    await page.getByRole("article", { name: "You" }).last().hover()
    await page.getByRole("button", { name: "Edit" }).last().click()
    await page.getByRole("textbox", { name: "Edit the message" }).fill("two")
    await page.keyboard.press("Enter")
    await lastAnswer(page).getByText("two").waitFor()
    await rest(page)
    assert.deepStrictEqual(await asked(page), ["Thank you", "two"])

    const again = answers(page).last()
    const before = await again.evaluate((article) => String(Reflect.get(article, "key")))
    await page.getByRole("button", { name: "Ask again" }).last().click()
    await page.waitForFunction(
      (key) => !Array.from(document.querySelectorAll("article")).some((one) => Reflect.get(one, "key") === key),
      before
    )
    await lastAnswer(page).getByText("Say help").waitFor()
    await rest(page)
    assert.deepStrictEqual(await asked(page), ["Thank you", "two"])

    const first = page.url()
    await answers(page).first().hover()
    await answers(page).first().getByRole("button", { name: "Continue from here" }).click()
    await page.getByRole("heading", { name: "Thank you (fork)" }).waitFor()
    await chat(page).getByText("You are welcome.").waitFor()
    assert.deepStrictEqual(await asked(page), ["Thank you"])
    await write(page, "three")
    await lastAnswer(page).getByText("Say help").waitFor()
    await rest(page)
    await page.reload()
    await lastAnswer(page).getByText("Say help").waitFor()
    assert.deepStrictEqual(await asked(page), ["Thank you", "three"])
    const names = page.getByRole("navigation", { name: "Chats" }).locator("li .name")
    assert.deepStrictEqual(await names.allInnerTexts(), ["Thank you (fork)", "Thank you"])

    await names.last().hover()
    await page.getByRole("button", { name: "Rename Thank you", exact: true }).click()
    await page.getByRole("textbox", { name: "Name" }).fill("Kindness")
    await page.keyboard.press("Enter")
    await names.getByText("Kindness").waitFor()
    await names.filter({ hasText: "fork" }).hover()
    await page.getByRole("button", { name: "Remove Thank you (fork)" }).click()
    await page.getByRole("dialog").getByRole("button", { name: "Remove" }).click()
    await page.getByRole("heading", { name: "What can I do for you?" }).waitFor()
    assert.deepStrictEqual(await names.allInnerTexts(), ["Kindness"])
    await page.goto(first)
    await page.getByRole("heading", { name: "Kindness" }).waitFor()
  })

  visit("SCREEN-7 a picture is attached, seen by the model and shown again", async ({ page }) => {
    const buffer = Buffer.from(dot, "base64")
    await page.getByLabel("Attach a picture").setInputFiles({ name: "dot <b>.png", mimeType: "image/png", buffer })
    await page.getByRole("img", { name: "dot <b>.png" }).waitFor()
    await write(page, "Look")
    await chat(page).getByText("I see a picture.").waitFor()
    await page.reload()
    const picture = page.getByRole("article", { name: "You" }).getByRole("img", { name: "dot <b>.png" })
    await picture.waitFor()
    await page.waitForFunction(() =>
      document.querySelector("article img")?.getAttribute("src")?.startsWith("/sessions/file")
    )
    await rest(page)
    assert.strictEqual(await picture.evaluate((img) => Reflect.get(img, "naturalWidth")), 1)
    // An edit sends the picture again
    await picture.hover()
    await page.getByRole("button", { name: "Edit" }).click()
    await page.getByRole("textbox", { name: "Edit the message" }).fill("Look here")
    await page.keyboard.press("Enter")
    await page.getByText("Look here").waitFor()
    await chat(page).getByText("I see a picture.").waitFor()
  })

  visitHeld(
    "a server that is killed or replaced in the middle loses nothing, and the page continues by itself",
    ["I am an assistant"],
    async ({ page }, model, at) => {
      await write(page, "Where is parcel 7?")
      await page.locator("details[data-state=works]").waitFor()
      await at.end("SIGKILL")
      await page.getByText("The connection is lost").waitFor()
      await at.start()
      // The call that was cut off has no known outcome, and is not made a second time
      await chat(page).getByText("I did not do it").waitFor()
      await rest(page)
      assert.strictEqual(await page.locator("details").count(), 1)

      await write(page, "Hello")
      await writing(page, "I am an assistant")
      await at.end("SIGKILL")
      await at.start()
      model.go()
      await rest(page)
      assert.strictEqual((await lastAnswer(page).innerText()).split("I am an assistant").length, 2)
      assert.include(await lastAnswer(page).innerText(), "kill the server")

      model.hold()
      await write(page, "Hello again")
      await writing(page, "I am an assistant")
      await at.end("SIGTERM")
      await at.start()
      model.go()
      // A slow page may come back after the end of the answer
      await answers(page).nth(3).getByText("kill the server").waitFor()
      await rest(page)
      assert.strictEqual(await answers(page).count(), 4)
      assert.include(await lastAnswer(page).innerText(), "kill the server")
      assert.deepStrictEqual(await asked(page), ["Where is parcel 7?", "Hello", "Hello again"])
    },
    { settings: { PACE: "100" } }
  )

  visitHeld(
    "SCREEN-7 on a phone all is in reach, and nothing is wider than the screen",
    ["book.write("],
    async ({ page }) => {
      await write(page, "Tell me a story")
      await page.getByText("book.write(").waitFor()
      assert.strictEqual(await page.evaluate(() => document.documentElement.scrollWidth), 390)
      assert.isAtLeast((await page.getByRole("button", { name: "Stop" }).boundingBox())?.width ?? 0, 36)
      await page.getByRole("button", { name: "Stop" }).click()
      await page.getByRole("button", { name: "Show the chats" }).click()
      await page.getByRole("link", { name: /Tell me a story/ }).waitFor()
      await page.getByRole("link", { name: "New chat" }).click()
      await page.getByRole("heading", { name: "What can I do for you?" }).waitFor()
      await page.getByRole("link", { name: "New chat" }).waitFor({ state: "hidden" })
    },
    { options: { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true } }
  )

  visit(
    "SCREEN-7 it is dark and light, as the device or as a person likes it, and each control has a name",
    async ({ page }) => {
      const ground = () => page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor)
      assert.strictEqual(await ground(), "rgb(23, 24, 28)")
      await page.getByRole("button", { name: "Colours: as the device" }).click()
      assert.strictEqual(await ground(), "rgb(255, 255, 255)")
      await page.reload()
      await page.getByRole("button", { name: "Colours: light" }).click()
      assert.strictEqual(await ground(), "rgb(23, 24, 28)")
      await write(page, "Refund order 42")
      await page.getByText("May I refund?").waitFor()
      // A screen reader gets each state
      await page.getByRole("status").getByText("The assistant needs your decision.").waitFor()
      const tree = await page.locator("body").ariaSnapshot()
      const unnamed = tree.split("\n").filter((line) => /- (?:button|link|textbox|img)(?: *$|:)/.test(line))
      assert.deepStrictEqual(unnamed, [])
    },
    { options: { colorScheme: "dark" } }
  )

  visit("texts with HTML and hostile links stay texts", async ({ page }) => {
    const evil = '<img src=x onerror="window.broken=1"><script>window.broken=1</script>'
    await write(
      page,
      `${evil} [link](javascript:window.broken=1) ![picture](https://example.com/x.png) \`${evil}\` **${evil}**`
    )
    await lastAnswer(page).getByText("Say help").waitFor()
    await rest(page)
    await write(page, `Refund order ${"x".repeat(8)}\u202e`)
    await page.getByText("May I refund?").waitFor()
    await page.getByRole("textbox", { name: "Reason" }).fill(evil)
    await page.getByRole("button", { name: "Deny" }).click()
    await lastAnswer(page).getByText("I did not do it").waitFor()
    await page.locator("summary").click()
    await page.reload()
    await lastAnswer(page).getByText("I did not do it").waitFor()
    assert.isUndefined(await page.evaluate(() => Reflect.get(window, "broken")))
    assert.strictEqual(await page.locator("main img, main script, main a[href^=javascript]").count(), 0)
    assert.include(await answers(page).first().innerText(), evil)
    assert.strictEqual(
      await page.getByRole("link", { name: "picture" }).getAttribute("rel"),
      "noopener noreferrer nofollow"
    )
  })

  visitHeld(
    "SCREEN-7 the page in React takes 60 lines, and its hook shows what is stored after a reload, a decision and a stop",
    ["I am an assistant", "There was a lighthouse keeper"],
    async ({ page }, model) => {
      assert.isAtMost(
        readFileSync(join(root, "examples/web-chat/react/chat.tsx"), "utf8").trimEnd().split("\n").length,
        60
      )
      await page.goto(new URL("/react", page.url()).href)
      await write(page, "Hello")
      await page.getByText("I am an assistant").waitFor()
      await page.reload()
      await page.getByText("I am an assistant").waitFor()
      model.go()
      await page.getByText(/I am an assistant[^]*kill the server/).waitFor()
      await page.getByRole("button", { name: "Stop" }).waitFor({ state: "hidden" })
      assert.strictEqual(await answers(page).count(), 1)
      const first = await answers(page).innerText()
      assert.strictEqual(first.split("I am an assistant").length, 2)
      await write(page, "Refund order 42")
      await page.getByRole("button", { name: "Approve" }).click()
      await page.getByText("Done: 25 EUR are paid back for order 42.").waitFor()
      await page.getByRole("button", { name: "Stop" }).waitFor({ state: "hidden" })
      model.hold()
      await write(page, "Tell me a story")
      await page.getByText("There was a lighthouse keeper").waitFor()
      await page.getByRole("button", { name: "Stop" }).click()
      await page.getByRole("button", { name: "Stop" }).waitFor({ state: "hidden" })
      const shown = await answers(page).allInnerTexts()
      await page.reload()
      await page.getByText("There was a lighthouse keeper").waitFor()
      assert.deepStrictEqual(await answers(page).allInnerTexts(), shown)
      assert.strictEqual(shown.length, 3)
      assert.notInclude(shown[2], "all copies were equal")
    }
  )
})
