// What the page says of how the pool should be routed, and what becomes of applying it.
import { ask, browser, check, metrics, screens, shot, want, world } from "./checks.mjs";
import { Page } from "./page.mjs";

const { admin, key, few } = world;
const patience = 120000; // milliseconds that advice may take

const config = async () => (await ask(admin, "GetRoutingConfig", {}, key)).pools[0].config;

// limits are the thresholds in force of all backends, as /metrics has them.
const limits = async () => [...await metrics(admin, key)].filter(([name]) => name.startsWith("warmroute_backend_concurrency_limit{")).map(([, limit]) => limit);

// advised opens the page of the router that is badly configured and has advice worked out.
async function advised() {
  const page = await Page.open(browser, admin, { wait: false });
  page.expected = true; // the browser tells of what is refused
  await page.unlock(key);
  await page.loaded();
  page.expected = false;
  await page.tab.click("#ask-advice");
  await page.until("there is advice", () => document.querySelector("#apply-advice"), null, patience);
  return page;
}

// drawn looks at what is on a curve's canvas: where vertical lines of the colours are, from 0 at
// the left to 1, and in what part of the columns there is anything of a curve's colour.
const drawn = (page, setting) => page.tab.evaluate((setting) => {
  const canvas = document.querySelector(`.curve[data-setting="${setting}"] canvas`);
  const over = document.querySelector(`.curve[data-setting="${setting}"] .u-over`).getBoundingClientRect();
  const at = canvas.getBoundingClientRect();
  const ratio = canvas.width / at.width;
  const [left, top, width, height] = [over.left - at.left, over.top - at.top, over.width, over.height].map((n) => Math.round(n * ratio));
  const pixels = canvas.getContext("2d").getImageData(left - 2, top, width + 4, height).data;
  const columns = (color) => {
    const probe = new OffscreenCanvas(1, 1).getContext("2d");
    probe.fillStyle = getComputedStyle(document.documentElement).getPropertyValue(color);
    probe.fillRect(0, 0, 1, 1);
    const wanted = probe.getImageData(0, 0, 1, 1).data;
    return Array.from({ length: width + 4 }, (_, x) => {
      let n = 0;
      for (let y = 0; y < height; y++) {
        const i = 4 * (y * (width + 4) + x);
        if ([0, 1, 2].every((c) => Math.abs(pixels[i + c] - wanted[c]) < 20)) n++;
      }
      return n / height;
    });
  };
  const line = (color, least) => {
    const found = columns(color).map((part, x) => [part, x - 1.5]).filter(([part]) => part >= least);
    return found.length > 0 && found.length <= 4 ? found.reduce((sum, [, x]) => sum + x, 0) / found.length / width : null;
  };
  const covered = (color) => columns(color).filter((part) => part > 0).length / width;
  return { now: line("--muted", 0.4), advised: line("--accent", 0.9), hitRate: covered("--delivered"), p90: covered("--captured") };
}, setting);

let page;
let change;

await check("too little for advice", async () => {
  const one = await Page.open(browser, few);
  await one.tab.click("#ask-advice");
  const text = await one.until("it says so", () => document.querySelector(".advised .empty")?.innerText);
  for (const part of ["requests count, and fewer than 300 prove nothing", "less than 2m0s proves nothing", "150 requests, in 30 s of the router’s clock"]) want(text.includes(part), `no ${JSON.stringify(part)} in: ${text}`);
  await one.accessible("too little");
  await one.tab.locator("#routing").screenshot({ path: shot("advice-too-little") });
  want(one.errors.length === 0, one.errors.join("\n"));
  await one.close();
});

await check("advice", async () => {
  page = await advised();
  const given = (await ask(admin, "GetAdvice", {}, key)).advice;
  change = given.change;
  want(change?.prefixLength > 1024 && change?.concurrencyThreshold > 4, `it is badly configured, and advised is ${JSON.stringify(change)}`);
  const title = await page.tab.locator(".verdict-title").textContent();
  want(title === `Set prefix_length 1,024 → ${change.prefixLength.toLocaleString("en-US")}, concurrency_threshold 4 → ${change.concurrencyThreshold}`, title);
  const notes = [];
  for (const curve of given.curves.slice(0, 2)) {
    want(curve.verdict === "set", `${curve.setting}: ${curve.verdict}`);
    const values = curve.points.map((p) => Number(p.value));
    const place = (value) => Math.log(value / values[0]) / Math.log(values.at(-1) / values[0]);
    const seen = await drawn(page, curve.setting);
    want(seen.hitRate > 0.9 && seen.p90 > 0.4, `${curve.setting}: of the curves is drawn ${JSON.stringify(seen)}`);
    for (const mark of ["now", "advised"]) {
      const at = place(curve[mark === "now" ? "present" : mark]);
      want(seen[mark] !== null && Math.abs(seen[mark] - at) < 0.01, `${curve.setting}: ${mark} belongs at ${at} and is at ${seen[mark]}`);
    }
    const label = await page.tab.locator(`.curve[data-setting="${curve.setting}"] [role=img]`).getAttribute("aria-label");
    want(label.includes(`now ${curve.present}, advised ${curve.advised}`), label);
    notes.push(`${curve.setting} ${curve.present} → ${curve.advised}`);
  }
  // Whoever does not see the curves has their values.
  const sheets = page.tab.locator(".advised details");
  want((await sheets.count()) === given.curves.length, `${await sheets.count()} tables of ${given.curves.length} curves`);
  for (const [i, curve] of given.curves.entries()) {
    await sheets.nth(i).locator("summary").press("Enter");
    const rows = await sheets.nth(i).locator("tbody tr").allInnerTexts();
    want(rows.length === curve.points.length, `${curve.setting}: ${rows.length} rows of ${curve.points.length} values`);
    if (i < 2) want(rows.filter((r) => r.includes("now")).length === 1 && rows.filter((r) => r.includes("advised")).length === 1, `${curve.setting}: ${rows.join(" | ")}`);
  }
  return notes.join(", ");
});

await check("advice on all screens", async () => {
  for (const [name, screen] of Object.entries(screens)) {
    await page.show(screen);
    want((await page.tooWide()) <= 0, `${name}: ${await page.tooWide()} pixels too wide`);
    await page.accessible(name);
    const seen = await drawn(page, "prefix_length");
    want(seen.hitRate > 0.9 && seen.now !== null && seen.advised !== null, `${name}: of the curve is drawn ${JSON.stringify(seen)}`);
    await page.tab.locator("#routing").screenshot({ path: shot(`advice-${name}`) });
  }
  await page.show({});
});

const outcome = (text) => page.until(`it says ${text}`, (text) => {
  const said = [...document.querySelectorAll(".verdict .setter .result")].find((r) => r.textContent.includes(text));
  return said && (said.dataset.outcome ?? "neither");
}, text);

await check("advice that cannot be applied", async () => {
  const before = await config();
  page.expected = true;
  const calls = "**/SetRoutingConfig";
  await page.tab.route(calls, (r) => r.abort());
  await page.tab.click("#apply-advice");
  want((await outcome("Not set: The router cannot be reached.")) === "bad", "a failure looks like a success");
  await page.accessible("not set");
  await page.tab.locator("#routing").screenshot({ path: shot("advice-not-set") });
  for (const [name, headers] of [["wrong", { authorization: "Bearer wrong" }], ["missing", { authorization: "" }]]) {
    await page.tab.unroute(calls);
    await page.tab.route(calls, (r) => r.continue({ headers: { ...r.request().headers(), ...headers } }));
    await page.tab.click("#apply-advice");
    await page.locked(name === "wrong" ? "not one of the admin port's" : "wants a key");
    await page.unlock(key);
    await page.loaded();
    want((await outcome("Not set: ")) === "bad", `with a ${name} key it does not say that nothing is set`);
  }
  await page.tab.unroute(calls);
  page.expected = false;
  want(JSON.stringify(await config()) === JSON.stringify(before), `it is set all the same: ${JSON.stringify(await config())}`);
});

await check("advice is applied", async () => {
  const sets = () => page.urls.filter((u) => u.endsWith("/SetRoutingConfig")).length;
  const label = (text) => page.until(`the button says ${text}`, (text) => document.querySelector("#apply-advice").textContent === text, text);
  want((await limits()).every((l) => l === 4), `before, the thresholds are ${await limits()}`);
  await page.tab.focus("#ask-advice");
  for (let i = 0; i < 3 && (await page.tab.evaluate(() => document.activeElement.id)) !== "apply-advice"; i++) await page.tab.keyboard.press("Tab");
  await page.tab.keyboard.press("Enter"); // on the button, if the keyboard gets there
  want((await outcome("Set: ")) === "good", "a success looks like a failure");
  await label("Applied");
  let now = await config();
  want(now.prefixLength === change.prefixLength && now.concurrencyThreshold === change.concurrencyThreshold, JSON.stringify(now));
  want((await limits()).length === 4 && (await limits()).every((l) => l === change.concurrencyThreshold), `/metrics has the thresholds ${await limits()}`);
  await page.until("the form has it", (c) => Number(document.querySelector("#set-prefix_length").value) === c.prefixLength && Number(document.querySelector("#set-concurrency_threshold").value) === c.concurrencyThreshold, change);
  await page.accessible("applied");
  await page.tab.locator("#routing").screenshot({ path: shot("advice-applied") });

  const before = sets();
  await page.tab.keyboard.press("Enter"); // still on the button
  await outcome("nothing to set");
  want(sets() === before, "what is set is set again");

  await page.tab.getByRole("button", { name: "Undo" }).click();
  await label("Apply advice");
  want((await page.tab.locator(".verdict .setter .result").textContent()) === "", "what was taken back is still said to be set");
  now = await config();
  want(now.prefixLength === 1024 && now.concurrencyThreshold === 4, JSON.stringify(now));

  await page.tab.fill("#set-w", "3"); // and not applied
  await page.tab.click("[data-apply=prefix_length]");
  await page.until("the part is applied", () => document.querySelector("[data-apply=prefix_length]").textContent === "Applied");
  now = await config();
  want(now.prefixLength === change.prefixLength && now.concurrencyThreshold === 4, JSON.stringify(now));
  want((await page.tab.inputValue("#set-w")) === "3", "what was being edited is gone");
  want((await page.tab.locator("#apply-advice").textContent()) === "Apply advice" && (await page.tab.locator(".otherwise").textContent()) === "", "half of the advice is taken for all of it, or for something else");

  await ask(admin, "SetRoutingConfig", { config: { minMatchRatio: 0.4 } }, key);
  await page.until("it says that the pool is set otherwise", () => document.querySelector(".otherwise").textContent.includes("min_match_ratio"));
  await page.tab.locator("#routing").screenshot({ path: shot("advice-otherwise") });
  want(page.errors.length === 0 && page.foreign.length === 0, page.errors.concat(page.foreign).join("\n"));
  await page.close();
});

await browser.close();
