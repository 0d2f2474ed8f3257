// What the page says of Redis: of a router that shares it with another, and of one that is alone.
import { browser, check, shot, tell, want, world } from "./checks.mjs";
import { Page } from "./page.mjs";

const fact = (page, name) => page.tab.locator(`[data-fact="${name}"] dd`).textContent();

// state waits until the panel shows a state, and returns what it says of it.
const state = (page, state) => page.until(`it is ${state}`, (state) => document.querySelector("#redis-state").textContent === state && document.querySelector(".redis .help").textContent, state);

let pages;

await check("Redis is shared", async () => {
  pages = [await Page.open(browser, world.admin), await Page.open(browser, world.lone)];
  for (const [i, page] of pages.entries()) {
    await state(page, "fresh");
    await page.until("the other routers are counted", (n) => document.querySelector("[data-fact='Other routers heard'] dd").textContent === n, i === 0 ? "1" : "0");
    await page.until("the page lives", () => document.querySelector("#link").dataset.state === "live");
    want((await fact(page, "Breaker")) === "closed" && (await page.tab.locator("[data-fact='Last failure']").count()) === 0, "something failed");
  }
  await pages[0].accessible("shared");
  await pages[0].tab.locator("#index").screenshot({ path: shot("redis-fresh") });
});

await check("Redis is gone", async () => {
  const began = Date.now();
  await tell("/redis/kill");
  const [cut, alone] = await Promise.all([state(pages[0], "cut"), state(pages[1], "alone")]);
  const took = Date.now() - began;
  want(took < 10000, `after ${took} ms`);
  want(cut.includes("not heard now") && alone.includes("not heard now"), `${cut}\n${alone}`);
  for (const page of pages) {
    await page.until("the head says so", () => document.querySelector("#link-text").textContent === "not shared");
    await page.until("the failure is named", () => document.querySelector("[data-fact='Last failure'] dd")?.textContent.includes("refused"));
    await page.until("the breaker is open", () => document.querySelector("[data-fact=Breaker] dd").textContent === "open");
    want((await page.tab.locator("#fleet-body .state[data-state=up]").count()) === 4, "it matters to the fleet");
    await page.accessible("cut");
  }
  await pages[0].tab.locator("#index").screenshot({ path: shot("redis-cut") });
  await pages[1].tab.locator("#index").screenshot({ path: shot("redis-alone") });
  return `after ${took} ms`;
});

await check("Redis is back", async () => {
  await tell("/redis/start");
  const began = Date.now();
  await Promise.all(pages.map((page) => state(page, "fresh")));
  const took = Date.now() - began;
  await pages[0].until("the other router is heard", () => document.querySelector("[data-fact='Other routers heard'] dd").textContent === "1");
  for (const page of pages) {
    await page.until("the page lives", () => document.querySelector("#link").dataset.state === "live");
    want(page.errors.length === 0 && page.foreign.length === 0, page.errors.concat(page.foreign).join("\n"));
    await page.close();
  }
  return `after ${took} ms`;
});

await browser.close();
