// What the checks have in common.
import { mkdirSync } from "node:fs";
import { chromium } from "playwright-core";

// A script is started as: node SCRIPT STAGE, where STAGE is what browser_test.go says, in JSON.
// world is what runs.
const { chromium: executablePath, shots, world: runs } = JSON.parse(process.argv[2]);
export const world = runs;

mkdirSync(shots, { recursive: true });
export const shot = (name) => `${shots}/${name}.png`;

export const browser = await chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"] });

// screens are the windows and colour schemes that the page is looked at in.
const narrow = { width: 390, height: 844 };
export const screens = { "wide-light": {}, "wide-dark": { dark: true }, "narrow-light": narrow, "narrow-dark": { ...narrow, dark: true } };

// check runs one check and prints what came of it, as a line of JSON.
export async function check(name, f) {
  const began = Date.now();
  let error = "";
  let note = "";
  try {
    note = (await f()) ?? "";
  } catch (err) {
    error = String(err.stack ?? err);
  }
  console.log(JSON.stringify({ name, error, note: String(note), seconds: (Date.now() - began) / 1000 }));
}

export function want(condition, text) {
  if (!condition) throw new Error(text);
}

export const pause = (ms) => new Promise((done) => setTimeout(done, ms));

// ask calls a method of a router's AdminService.
export async function ask(router, method, request = {}, key = "") {
  const response = await fetch(`${router}/warmroute.v1.AdminService/${method}`, {
    method: "POST", headers: { "Content-Type": "application/json", ...(key ? { Authorization: `Bearer ${key}` } : {}) }, body: JSON.stringify(request),
  });
  return response.json();
}

// metrics are the samples of a router, by name and labels.
export async function metrics(router, key = "") {
  const text = await (await fetch(`${router}/metrics`, { headers: key ? { Authorization: `Bearer ${key}` } : {} })).text();
  return new Map(text.split("\n").filter((l) => l && !l.startsWith("#")).map((l) => [l.slice(0, l.lastIndexOf(" ")), Number(l.slice(l.lastIndexOf(" ") + 1))]));
}

// tell has the test's process change something about the routers that run in it.
export async function tell(path, body = "") {
  const response = await fetch(world.control + path, { method: "POST", body });
  want(response.ok, `${path}: ${response.status} ${await response.text()}`);
}
