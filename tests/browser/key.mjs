// What the page does where the admin port wants a key.
import { ask, browser, check, pause, screens, shot, tell, want, world } from "./checks.mjs";
import { Page } from "./page.mjs";

const { admin, key } = world;

// keeps is what a page leaves in the browser.
const keeps = (page) => page.tab.evaluate(() => ({
  session: Object.fromEntries(Object.entries(sessionStorage)), local: localStorage.length, cookie: document.cookie, field: document.querySelector("#lock-key").value, html: document.documentElement.outerHTML,
}));

// forgotten fails where a page still has anything of a key.
async function forgotten(page, key) {
  const kept = await keeps(page);
  want(!JSON.stringify(kept.session).includes(key) && kept.local === 0 && kept.cookie === "" && !kept.html.includes(key), `it keeps the key: ${JSON.stringify(kept.session)}, cookie ${kept.cookie}`);
}

let page;

await check("a key is asked for", async () => {
  page = await Page.open(browser, admin, { wait: false });
  page.expected = true; // the browser tells of what is refused
  await page.locked();
  want((await page.tab.evaluate(() => document.activeElement.id)) === "lock-key", "the cursor is not where the key goes");
  want((await page.tab.locator("#fleet-body tbody tr").count()) === 0 && (await page.tab.locator("#forget").isHidden()), "something is shown without a key");
  for (const [name, screen] of Object.entries(screens)) {
    await page.show(screen);
    want((await page.tooWide()) <= 0, `${name}: ${await page.tooWide()} pixels too wide`);
    await page.accessible(name);
    await page.shot(shot(`lock-${name}`), false);
  }
  await page.show({});
});

await check("a wrong key is refused", async () => {
  await page.unlock("a-wrong-key");
  await page.locked("not one of the admin port's");
  await forgotten(page, "a-wrong-key");
  await page.accessible("refused");
  await page.shot(shot("lock-refused-light"), false);
  for (const text of ["ключ", "two words"]) { // no header carries the one, and no key is the other
    await page.tab.fill("#lock-key", text);
    await page.tab.keyboard.press("Enter");
    await page.locked("That is no key");
  }
  await pause(1500); // a page that is locked asks nothing by itself
  const asked = page.urls.length;
  await pause(1500);
  want(page.urls.length === asked, `it asked for ${page.urls.slice(asked).join(", ")}`);
});

await check("the right key opens", async () => {
  await page.unlock(key); // over what is there
  await page.loaded();
  await page.until("the page lives", () => document.querySelector("#link").dataset.state === "live" && document.querySelectorAll("#fleet-body tbody tr").length === 4);
  const kept = await keeps(page);
  want(kept.field === "" && !kept.html.includes(key), "the key is still on the page");
  want(kept.local === 0 && kept.cookie === "", `it is kept beyond the tab: cookie ${kept.cookie}`);
  await page.tab.reload();
  await page.loaded();
  const other = await page.context.newPage();
  await other.goto(admin);
  await other.waitForFunction(() => !document.querySelector("#lock").hidden);
  await other.close();
  want(page.tab.url() === `${admin}/` && !page.urls.some((u) => u.includes(key)), "the key is in a URL");
});

await check("a key that is withdrawn", async () => {
  const next = "another-key-of-the-test";
  await tell("/admin-key", next);
  await page.locked("not one of the admin port's");
  await forgotten(page, key);
  want(!(await page.tab.locator("#panels").isVisible()), "what it showed is still shown");
  await page.unlock(next);
  await page.loaded();
  want((await ask(admin, "GetRoutingConfig", {}, key)).code === "unauthenticated", "the key of before is still good");
  await tell("/admin-key", key);
  await page.unlock(key);
  await page.loaded();
});

await check("a key is forgotten", async () => {
  await page.tab.click("#forget");
  await page.locked();
  await forgotten(page, key);
  want((await page.tab.locator("#fleet-body tbody tr").count()) === 0, "what it showed is still there");
  want((await page.tab.locator("#lock-error").textContent()) === "", "it says that something went wrong");
  want(page.foreign.length === 0 && !page.urls.some((u) => u.includes(key)), page.foreign.join("\n"));
  await page.close();
});

await browser.close();
