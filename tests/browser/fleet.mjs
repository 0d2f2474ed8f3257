// A fleet at work, and what becomes of it.
import { ask, browser, check, metrics, pause, screens, shot, want, world as fleet } from "./checks.mjs";
import { Load } from "./load.mjs";
import { Page } from "./page.mjs";
import { below } from "./prefix.mjs";

const admin = (method, request) => ask(fleet.admin, method, request);
const load = new Load(fleet.data, fleet.model, 24);
const number = (selector) => page.tab.locator(selector).getAttribute("value").then(Number);
let page;

await check("empty states", async () => {
  const nobody = await Page.open(browser, fleet.empty);
  await nobody.until("a pool without backends says so", () => document.querySelector("#fleet-body .empty:not([hidden])")?.textContent.includes("no backends"));
  await nobody.accessible("without backends");
  await nobody.shot(shot("empty-light"));
  want(nobody.errors.length === 0, nobody.errors.join("\n"));
  await nobody.close();
  page = await Page.open(browser, fleet.admin);
  await page.until("without traffic it says so", () => document.querySelector("#tokens-body .empty:not([hidden])") && document.querySelector("#decisions-body .empty:not([hidden])"));
  await page.accessible("without traffic");
});

await check("weight", async () => {
  const bytes = await page.weight();
  want(bytes > 50_000 && bytes < 300_000, `${bytes} bytes`);
  return `${bytes} bytes`;
});

load.start();

await check("live", async () => {
  await page.until("the fleet works", () => Number(document.querySelector("#account tbody data")?.value) > 500000, null, 60000);
  await page.until("each backend has its row", (n) => document.querySelectorAll("#fleet-body tbody tr").length === n, fleet.doubles.length);
  await page.until("decisions come by themselves", () => document.querySelectorAll("#decisions-body tbody").length >= 20);
  await page.until("charts are drawn", () => document.querySelectorAll("#tokens-body canvas").length === 2);
});

await check("values match the metrics", async () => {
  await load.stop();
  await page.tab.selectOption("#window", "0");
  const m = await metrics(fleet.admin);
  const of = (name) => m.get(`warmroute_${name}{pool="default"}`);
  const lost = (cause) => m.get(`warmroute_undelivered_tokens_total{cause="${cause}",pool="default"}`);
  const value = (id, i) => `#${id} tbody tr:nth-child(${i}) data`;
  const expected = [
    [value("account", 1), of("available_cached_tokens_total")], [value("account", 2), of("captured_cached_tokens_total")],
    [value("account", 3), of("predicted_cached_tokens_total")], [value("account", 4), of("delivered_cached_tokens_total")],
    [value("losses", 1), of("delivered_cached_tokens_total")], [value("losses", 2), lost("load_choice")], [value("losses", 3), lost("overflow")],
    [value("losses", 4), lost("stale_index")], [value("losses", 5), lost("unreported")], [value("losses", 6), lost("no_reuse")],
  ];
  await page.until("the page has caught up", ([s, v]) => Number(document.querySelector(s).value) === v, expected[3]);
  for (const [selector, v] of expected) want((await number(selector)) === v, `${selector}: the page says ${await number(selector)}, /metrics ${v}`);
  want(Math.abs((await number("#glance .lead data")) - of("delivered_cached_tokens_total") / of("reported_prompt_tokens_total")) < 1e-9, "the hit rate is another");
  for (const e of fleet.doubles) {
    const labels = `{backend="${e.id}",pool="default"}`;
    const row = `tr[data-backend="${e.id}"]`;
    for (const [column, name] of [["In flight", "in_flight"], ["KV in use", "engine_kv_usage_ratio"]]) {
      await page.until(`${e.id}: ${column} is that of /metrics`, async ([admin, selector, sample]) => { // which moves until the engine was scraped again
        const line = (await (await fetch(`${admin}/metrics`)).text()).split("\n").find((l) => l.startsWith(sample));
        return document.querySelector(selector).value === line.slice(sample.length + 1);
      }, [fleet.admin, `${row} [data-column="${column}"] data`, `warmroute_backend_${name}${labels}`]);
    }
    const predicted = m.get(`warmroute_backend_predicted_cached_tokens_total${labels}`) / m.get(`warmroute_backend_prompt_tokens_total${labels}`);
    want(Math.abs((await number(`${row} .pair-line:nth-child(1) data`)) - predicted) < 1e-9, `${e.id}: predicted`);
    const blocks = m.get(`warmroute_backend_index_blocks${labels}`);
    const shown = await page.until("index", ([id]) => [...document.querySelectorAll("#index-body tr")].find((r) => r.firstChild.textContent === id)?.querySelector("data").value, [e.id]);
    want(Number(shown) === blocks, `${e.id}: ${shown} blocks, /metrics ${blocks}`);
  }
  await page.tab.selectOption("#window", "900");
  return `${of("prompt_tokens_total")} prompt tokens, hit rate ${(of("delivered_cached_tokens_total") / of("reported_prompt_tokens_total")).toFixed(3)}`;
});

const again = new Load(fleet.data, fleet.model, 8);
again.start();

await check("a decision shows why", async () => {
  await pause(1500);
  const before = await page.tab.locator("#decisions-body .toggle").count();
  want(before > 0, "there are no decisions");
  const id = await page.tab.locator("#decisions-body tbody tr[data-decision]").first().getAttribute("data-decision");
  const toggle = page.tab.locator(`tr[data-decision="${id}"] .toggle`);
  await toggle.focus();
  await page.tab.keyboard.press("Enter");
  const text = await page.until("it opens", (id) => document.getElementById(`decision-${id}`)?.hidden === false && document.getElementById(`decision-${id}`).innerText, id);
  want(text.includes("chosen") && /holds \d+ of \d+ blocks/.test(text), text);
  want((await page.tab.locator(`#decision-${id} .candidates tbody tr`).count()) === fleet.doubles.length, "not all candidates are there");
  await pause(1200);
  want(await toggle.isVisible(), "it went away while it was read");
  await page.tab.getByRole("button", { name: "Resume" }).click();
});

await check("settings are applied", async () => {
  await page.tab.selectOption("#set-strategy", "LEAST_EXPECTED_TTFT");
  await page.tab.fill("#set-concurrency_threshold", "2000");
  await page.tab.click("#apply");
  await page.until("a wrong value is refused", () => document.querySelector("#settings .result").dataset.outcome === "bad");
  want((await admin("GetRoutingConfig")).pools[0].config.strategy === "PREFIX_AWARE", "a form with a wrong value was sent");
  await page.tab.fill("#set-concurrency_threshold", "64");
  await page.tab.click("#apply");
  await page.until("it says so", () => document.querySelector("#settings .result").dataset.outcome === "good");
  let config = (await admin("GetRoutingConfig")).pools[0].config;
  want(config.strategy === "LEAST_EXPECTED_TTFT" && config.concurrencyThreshold === 64, JSON.stringify(config));
  await page.until("decisions follow", () => [...document.querySelectorAll("#decisions-body .reason")].some((r) => r.textContent === "cheapest ttft"));
  await page.tab.getByRole("button", { name: "Undo" }).click();
  await page.until("it is undone", () => document.querySelector("#set-strategy").value === "PREFIX_AWARE" && document.querySelector("#settings .result").dataset.outcome === "good");
  config = (await admin("GetRoutingConfig")).pools[0].config;
  want(config.strategy === "PREFIX_AWARE" && config.concurrencyThreshold === 128, JSON.stringify(config));
  await page.tab.getByRole("button", { name: "Back to the configuration" }).click();
  await page.until("nothing is set any more", () => [...document.querySelectorAll("#settings .mark")].every((m) => m.textContent === ""));
});

await check("hostile names are text", async () => {
  const found = await page.until("the model is named", () => [...document.querySelectorAll("#fleet-body .more")].map((n) => n.textContent).find((t) => t.includes("<img")));
  want(found.includes("onerror"), found);
  want((await page.tab.locator("main img[src='x']").count()) === 0, "a name became an element");
  page.expected = true; // the browser tells of what it blocks
  want(await page.tab.evaluate(() => { try { document.createElement("p").innerHTML = "<b>x</b>"; return false; } catch { return true; } }), "the policy lets text become HTML");
  await pause(200);
  page.expected = false;
});

await check("screens", async () => {
  const one = await Page.open(browser, fleet.admin);
  await one.until("decisions", () => document.querySelectorAll("#decisions-body tbody").length > 5);
  await pause(1500);
  await one.tab.locator("#decisions-body .toggle").nth(1).click();
  for (const [name, screen] of Object.entries(screens)) {
    await one.show(screen);
    want((await one.tooWide()) <= 0, `${name}: ${await one.tooWide()} pixels too wide`);
    await one.accessible(name);
    await one.shot(shot(name));
  }
  want(one.errors.length === 0 && one.foreign.length === 0, one.errors.concat(one.foreign).join("\n"));
  await one.close();
});

await check("keyboard", async () => {
  const one = await Page.open(browser, fleet.admin);
  await one.tab.keyboard.press("Tab");
  want((await one.tab.evaluate(() => document.activeElement.className)) === "skip", "the first stop is not the skip link");
  const stops = new Set();
  for (let i = 0; i < 60; i++) {
    await one.tab.keyboard.press("Tab");
    stops.add(await one.tab.evaluate(() => document.activeElement.id || document.activeElement.textContent.slice(0, 30)));
  }
  for (const id of ["window", "set-strategy", "set-w", "ask-advice"]) want(stops.has(id), `${id} is not reached: ${[...stops].join(", ")}`);
  await one.close();
});

await check("below a path", async () => {
  const front = await below("/ops/warmroute", fleet.admin);
  const one = await Page.open(browser, front.url);
  await one.until("it works", () => document.querySelectorAll("#fleet-body tbody tr").length > 0 && document.querySelectorAll("#decisions-body tbody").length > 3);
  want(one.errors.length === 0, one.errors.join("\n"));
  await one.close();
  front.close();
});

await check("a router that is gone", async () => {
  page.expected = true;
  await page.context.setOffline(true);
  await page.until("it says so", () => !document.querySelector("#banner").hidden && document.querySelector("#link").dataset.state === "lost");
  await page.shot(shot("lost-light"), false);
  await page.context.setOffline(false);
  await page.until("it recovers", () => document.querySelector("#banner").hidden && document.querySelector("#link").dataset.state !== "lost");
  await pause(300);
  page.expected = false;
});

await check("a dead backend shows within 2 s", async () => {
  const victim = fleet.doubles.at(-1);
  const began = Date.now();
  process.kill(victim.pid, "SIGKILL");
  await page.until("it is not up any more", (id) => document.querySelector(`tr[data-backend="${id}"] .state`)?.dataset.state !== "up", victim.id, 2000);
  const took = Date.now() - began;
  want(took <= 2000, `${took} ms`);
  await pause(1000);
  await page.shot(shot("dead-backend-light"), false);
  return `${took} ms`;
});

await check("quiet", async () => {
  await again.stop();
  want(page.errors.length === 0, page.errors.join("\n"));
  want(page.foreign.length === 0, page.foreign.join("\n"));
  want(load.failed === 0, `${load.failed} of ${load.answered + load.failed} requests failed before anything was killed`);
  return `${load.answered + again.answered} requests answered, ${load.failed + again.failed} failed`;
});

await browser.close();
