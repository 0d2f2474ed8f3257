// Automatic mode: what it waits for, and the steps that it made.
import { attr, el, empty, keyed, say } from "./dom.js";
import { parseDuration, percent, seconds, settingText } from "./format.js";
import { call } from "./rpc.js";

const columns = ["At", "Setting", "From → to", "Outcome", "Hit rate", "P90 TTFT", "Why"];

// fates are what becomes of a step, in words, and the state of a backend that looks alike.
const fates = {
  watched: ["being watched", "draining"], kept: ["kept", "up"], taken_back: ["taken back", "ejected"], overridden: ["overridden", "cooling"],
};

const turnOn = (pool) => `pools:\n  - name: ${pool}\n    tuning:\n      automatic: true`;

// moment is when a step was made: steps may be days old.
const moment = (at) => new Date(at).toLocaleString("en-GB", { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });

// change is a figure before and after a step, – where it is not known.
const change = (step, figure) => `${figure(step.before ?? {})} → ${step.after ? figure(step.after) : "–"}`;

function row() {
  const at = el("time");
  const cells = columns.slice(2).map((name, i) => el("td", { role: "cell", "data-column": name, class: i === columns.length - 3 ? "why" : null }));
  const [values, fate, hits, p90, why] = cells;
  const setting = el("td", { role: "cell", "data-column": columns[1] });
  const state = el("span", { class: "state" });
  fate.append(state);
  const node = el("tr", { role: "row" }, el("th", { role: "rowheader", scope: "row", "data-column": columns[0] }, at), setting, ...cells);
  return {
    node,
    update(s) {
      say(at, moment(s.at));
      attr(at, "datetime", s.at);
      say(setting, s.setting);
      say(values, `${settingText(s.setting, s.from ?? 0)} → ${settingText(s.setting, s.to ?? 0)}`);
      const [words, alike] = fates[s.fate] ?? [s.fate, null];
      attr(node, "data-fate", s.fate);
      say(state, words);
      attr(state, "data-state", alike);
      say(hits, change(s, (m) => percent(m.hitRate ?? 0)));
      say(p90, change(s, (m) => seconds(parseDuration(m.ttftP90))));
      say(why, s.why ?? "");
    },
  };
}

// tuning is the panel. It asks for itself, so that its errors are its own.
export function tuning(root, state) {
  const off = el("div");
  const failed = el("p", { class: "error", role: "status" });
  const facts = el("dl", { class: "facts" });
  const body = el("tbody", { role: "rowgroup" });
  const table = el("div", { class: "scroll tall", tabindex: "0", role: "region", "aria-label": "Steps of automatic mode" },
    el("table", { role: "table", class: "cards steps" },
      el("thead", { role: "rowgroup" }, el("tr", { role: "row" }, ...columns.map((c) => el("th", { role: "columnheader", scope: "col", text: c })))), body));
  const none = el("p", { class: "help", text: "No step was made yet. One is made where advice promises a point of hit rate, or 5 % of P90, and taken back where less is delivered." });
  const order = el("p", { class: "help", text: "Steps, the newest first. Hit rate and P90 are what was delivered before it → since." });
  const on = el("div", { class: "automatic" }, facts, none, order, table);
  off.hidden = on.hidden = true;
  root.append(failed, off, on);
  let shown = null; // the pool
  let asking = false;

  function show(t) {
    const automatic = t.automatic ?? false;
    say(state, automatic ? "on" : "off");
    attr(state, "data-state", automatic ? "up" : null);
    off.hidden = automatic;
    on.hidden = !automatic;
    if (!automatic) {
      if (off.dataset.pool !== t.pool) {
        off.dataset.pool = t.pool;
        off.replaceChildren(empty("Automatic mode is off", "The pool can follow advice by itself, one bounded step at a time, and take back what delivers less. To turn it on, in the configuration file:", turnOn(t.pool)));
      }
      return;
    }
    const steps = t.steps ?? [];
    keyed(facts, [
      ["Now", t.doing || "beginning"],
      ["This router", t.leads ? "leads: it makes the steps" : "follows: another router makes the steps"],
      ["Each step is watched for", seconds(parseDuration(t.observation))],
    ], ([name]) => name, ([name]) => {
      const value = el("dd");
      return { node: el("div", { dataset: { fact: name } }, el("dt", { text: name }), value), update: ([, text]) => say(value, text) };
    });
    none.hidden = steps.length > 0;
    order.hidden = table.hidden = steps.length === 0;
    keyed(body, steps, (s) => `${s.at} ${s.setting}`, row);
  }

  async function ask(pool) {
    asking = true;
    try {
      const answer = await call("GetTuning", { pool });
      say(failed, "");
      const one = (answer.pools ?? []).find((p) => p.pool === pool);
      if (one && pool === shown) show(one);
    } catch (err) {
      say(failed, `Automatic mode could not be asked for: ${err.message}`);
    }
    asking = false;
  }

  return {
    render({ pool }) {
      if (pool !== shown) off.hidden = on.hidden = true; // what it shows is another pool's
      shown = pool;
      if (pool && !asking) ask(pool);
    },
  };
}
