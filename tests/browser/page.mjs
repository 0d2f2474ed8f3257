// A page of the dashboard, and what it did that it must not.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

export class Page {
  // open opens a URL in a window of its own and waits until the page has shown something.
  static async open(browser, url, { width = 1280, height = 900, dark = false, wait = true } = {}) {
    const context = await browser.newContext({ viewport: { width, height }, colorScheme: dark ? "dark" : "light", reducedMotion: "reduce" });
    const page = new Page();
    page.context = context;
    context.setDefaultTimeout(60000); // machines may be busy
    page.tab = await context.newPage();
    page.errors = [];
    page.foreign = [];
    page.files = [];
    page.urls = []; // of all that was asked for
    page.expected = false; // errors of the network, while it is taken away
    page.tab.on("console", (m) => {
      if (m.type() === "error" && !page.expected) page.errors.push(m.text());
    });
    page.tab.on("pageerror", (e) => page.errors.push(String(e)));
    const origin = new URL(url).origin;
    page.tab.on("request", (r) => {
      page.urls.push(r.url());
      if (!r.url().startsWith(`${origin}/`)) page.foreign.push(r.url());
    });
    page.tab.on("response", (r) => {
      if (r.request().method() === "GET" && r.ok()) page.files.push(r);
    });
    await page.tab.goto(url);
    if (wait) await page.loaded();
    return page;
  }

  loaded() {
    return this.until("the page has data", () => document.body.dataset.loaded === "yes" && document.querySelector("#lock").hidden, null, 60000);
  }

  // locked waits until the page asks for a key, and for words where there are to be some.
  locked(words = "") {
    return this.until("it asks for a key", (words) => !document.querySelector("#lock").hidden && document.querySelector("#panels").hidden
      && document.querySelector("#lock-error").textContent.includes(words), words);
  }

  // unlock types a key where the page asks for it, which is where the cursor is.
  async unlock(key) {
    await this.locked();
    await this.tab.keyboard.type(key);
    await this.tab.keyboard.press("Enter");
  }

  // show has the window another size and colour scheme, and waits until what is drawn follows.
  async show({ width = 1280, height = 900, dark = false }) {
    await this.tab.setViewportSize({ width, height });
    await this.tab.emulateMedia({ colorScheme: dark ? "dark" : "light" });
    await this.tab.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
  }

  // tooWide is by how many pixels the page is wider than its window.
  tooWide() {
    return this.tab.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  }

  // accessible fails where axe finds something serious.
  async accessible(what) {
    const wrong = await this.audit();
    if (wrong.length > 0) throw new Error(`${what}: ${wrong.join("\n")}`);
  }

  // weight is the size of what was loaded to show the page, in bytes, data left out.
  async weight() {
    let sum = 0;
    for (const r of this.files) sum += (await r.body()).length;
    return sum;
  }

  // until waits for something to be so on the page, and returns what it gave.
  async until(what, f, argument, timeout = 20000) {
    try {
      return await (await this.tab.waitForFunction(f, argument, { timeout, polling: 50 })).jsonValue();
    } catch (err) {
      throw new Error(`${what}: ${err.message.split("\n")[0]}`);
    }
  }

  // audit returns what axe finds that is serious or worse.
  async audit() {
    const found = await this.tab.evaluate(`${axe}; axe.run(document, { resultTypes: ["violations"] })`);
    return found.violations.filter((v) => v.impact === "serious" || v.impact === "critical")
      .map((v) => `${v.id} (${v.impact}): ${v.nodes.slice(0, 4).map((n) => `${n.target.join(" ")} ${n.any[0]?.message ?? ""}`).join("; ")}`);
  }

  async shot(path, fullPage = true) {
    await this.tab.screenshot({ path, fullPage });
  }

  async close() {
    await this.context.close();
  }
}
