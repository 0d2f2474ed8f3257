// What the page says of automatic mode: where it is off, while it waits, and of a step.
import { ask, browser, check, screens, shot, tell, want, world } from "./checks.mjs";
import { Load } from "./load.mjs";
import { Page } from "./page.mjs";

const { data, admin, off, model } = world;
const patience = 150000; // milliseconds: a step is watched for half a minute at least

const panel = (page) => page.tab.locator("#tuning");
const fact = (page, name) => page.tab.locator(`#tuning [data-fact="${name}"] dd`).textContent();
const state = (page, state) => page.until(`it is ${state}`, (state) => document.querySelector("#tuning-state").textContent === state, state);

// cell is what a column of the only step says.
const cell = (page, column) => page.tab.locator(`#tuning tbody tr [data-column="${column}"]`).innerText();

let page;

await check("automatic mode is off", async () => {
  const one = await Page.open(browser, off);
  await state(one, "off");
  want((await panel(one).innerText()).includes("- name: default\n    tuning:\n      automatic: true"), await panel(one).innerText());
  want((await one.tab.locator("#tuning table:visible").count()) === 0, "it shows steps");
  await one.accessible("off");
  await panel(one).screenshot({ path: shot("tuning-off") });
  want(one.errors.length === 0 && one.foreign.length === 0, one.errors.concat(one.foreign).join("\n"));
  await one.close();
});

await check("automatic mode waits", async () => {
  page = await Page.open(browser, admin);
  await state(page, "on");
  await page.until("it leads", () => document.querySelector("#tuning [data-fact='This router'] dd")?.textContent.startsWith("leads"));
  await page.until("it says what it waits for", () => document.querySelector("#tuning [data-fact=Now] dd").textContent.startsWith("observing what is delivered"));
  want((await fact(page, "Each step is watched for")) === "60 s", await fact(page, "Each step is watched for"));
  want((await panel(page).innerText()).includes("No step was made yet"), await panel(page).innerText());
  await page.accessible("waiting");
  await panel(page).screenshot({ path: shot("tuning-waits") });
});

await check("a step", async () => {
  await tell("/step");
  await page.until("it is there", () => document.querySelector("#tuning tbody tr[data-fate=watched]"));
  const says = { Setting: "prefix_length", "From → to": "65,536 → 16,384", Outcome: "being watched", "Hit rate": "99.1 % → –", "P90 TTFT": "40 ms → –", Why: "made by another router" };
  for (const [column, text] of Object.entries(says)) want((await cell(page, column)) === text, `${column}: ${await cell(page, column)}`);
  const at = Date.now() - Date.parse(await page.tab.locator("#tuning tbody time").getAttribute("datetime"));
  want(at >= 0 && at < 60000, `it was made ${at} ms ago`);
  await page.until("it is watched", () => document.querySelector("#tuning [data-fact=Now] dd").textContent.startsWith("watching what comes of prefix_length 16384"));
  for (const [name, screen] of Object.entries(screens)) {
    await page.show(screen);
    want((await page.tooWide()) <= 0, `${name}: ${await page.tooWide()} pixels too wide`);
    await page.accessible(name);
    await panel(page).screenshot({ path: shot(`tuning-${name}`) });
  }
  await page.show({});
});

await check("a step is taken back", async () => {
  const load = new Load(data, model, 8);
  load.start();
  try {
    await page.until("it is", () => document.querySelector("#tuning tbody tr[data-fate=taken_back]"), null, patience);
  } finally {
    await load.stop();
  }
  const step = (await ask(admin, "GetTuning")).pools[0].steps[0];
  const hits = `99.1 % → ${(100 * step.after.hitRate).toFixed(1)} %`;
  want((await cell(page, "Hit rate")) === hits, `${await cell(page, "Hit rate")}, and it is ${hits}`);
  want(/^40 ms → [\d.]+ m?s$/.test(await cell(page, "P90 TTFT")), await cell(page, "P90 TTFT"));
  want((await cell(page, "Outcome")) === "taken back" && (await cell(page, "Why")).includes("taken back: the hit rate fell from 99.1 %"), await panel(page).innerText());
  await page.until("the form has the value of before", () => document.querySelector("#set-prefix_length").value === "65536");
  want((await ask(admin, "GetRoutingConfig")).pools[0].config.prefixLength === 65536, "it is in force all the same");
  await page.accessible("taken back");
  await panel(page).screenshot({ path: shot("tuning-taken-back") });
  want(load.failed === 0, `${load.failed} requests failed`);
  return `${hits}, ${load.answered} requests`;
});

await check("automatic mode cannot be asked for", async () => {
  page.expected = true; // the browser tells of what fails
  const calls = "**/GetTuning";
  await page.tab.route(calls, (r) => r.fulfill({ status: 500, contentType: "application/json", body: JSON.stringify({ code: "internal", message: "it is broken" }) }));
  await page.until("the panel says so", () => document.querySelector("#tuning .error").textContent.includes("it is broken"));
  want((await page.tab.locator("#link").getAttribute("data-state")) === "live" && (await page.tab.locator("#banner").isHidden()), "the rest of the page is lost with it");
  await page.accessible("broken");
  await panel(page).screenshot({ path: shot("tuning-broken") });
  await page.tab.unroute(calls);
  await page.until("it recovers", () => document.querySelector("#tuning .error").textContent === "");
  page.expected = false;
  want(page.errors.length === 0 && page.foreign.length === 0, page.errors.concat(page.foreign).join("\n"));
  await page.close();
});

await browser.close();
