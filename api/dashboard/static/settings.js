// How the pool is routed, and changing that.
import { attr, el, say } from "./dom.js";
import { settingText } from "./format.js";
import { call } from "./rpc.js";

const strategies = ["PREFIX_AWARE", "LEAST_EXPECTED_TTFT", "PREFIX_HASH", "LEAST_OUTSTANDING_REQUESTS", "RANDOM"];

const fields = [
  { name: "strategy", json: "strategy", help: "the rule that chooses a backend" },
  { name: "prefix_length", json: "prefixLength", help: "characters hashed, 1,024–1,048,576; 0: the strategy’s default", min: 0, max: 1048576, step: 1 },
  { name: "concurrency_threshold", json: "concurrencyThreshold", help: "requests in flight before another is taken, 1–1,024", min: 1, max: 1024, step: 1 },
  { name: "min_match_ratio", json: "minMatchRatio", help: "part of a prompt that a holder must hold, 0–1", min: 0, max: 1, step: "any" },
  { name: "w", json: "w", help: "weight of uncached tokens against queued ones, 1–4", min: 1, max: 4, step: "any" },
];

// jsonName is a setting's name in the interface.
export const jsonName = (name) => fields.find((f) => f.name === name)?.json;

// difference says in words how two configurations differ.
export function difference(before, after) {
  return fields.filter((f) => after[f.json] !== undefined && String(after[f.json]) !== String(before[f.json]))
    .map((f) => `${f.name} ${settingText(f.name, before[f.json] ?? 0)} → ${settingText(f.name, after[f.json])}`);
}

// settings is the form. changed is called when something has been set, refused with the error
// where the router wants another key first.
export function settings(changed, refused) {
  let pool = "";
  let present = null;
  let undo = null;
  const rows = fields.map((f) => {
    const id = `set-${f.name}`;
    const input = f.name === "strategy" ? el("select", { id }, ...strategies.map((s) => el("option", { value: s, text: s })))
      : el("input", { id, type: "number", inputmode: "decimal", min: f.min, max: f.max, step: f.step, required: true });
    input.setAttribute("aria-describedby", `${id}-help`);
    const mark = el("span", { class: "mark" });
    input.addEventListener("input", () => refresh());
    return { ...f, input, mark, node: el("div", { class: "field" }, el("label", { for: id }, f.name, mark), input, el("span", { class: "help", id: `${id}-help`, text: f.help })) };
  });
  const pending = el("p", { class: "pending", "aria-live": "polite" });
  const result = el("p", { class: "result", role: "status" });
  const apply = el("button", { type: "submit", class: "primary", id: "apply", text: "Apply" });
  const discard = el("button", { type: "button", text: "Discard", onclick: () => { rows.forEach((r) => { r.input.value = present[r.json]; }); refresh(); } });
  const back = el("button", { type: "button", text: "Undo", hidden: true, onclick: () => change(undo.config, undo.pool) });
  const reset = el("button", { type: "button", text: "Back to the configuration", onclick: () => change(null, pool) });
  const form = el("form", { id: "settings", novalidate: true, onsubmit: (e) => { e.preventDefault(); submit(); } },
    el("h3", { text: "Settings" }), ...rows.map((r) => r.node), pending, el("div", { class: "buttons" }, apply, discard, reset, back), result);

  const edited = () => rows.filter((r) => present && r.input.value !== String(present[r.json]));

  function refresh() {
    const all = edited();
    for (const r of rows) attr(r.input, "data-edited", all.includes(r));
    say(pending, all.length === 0 ? "" : all.map((r) => `${r.name} ${settingText(r.name, present[r.json])} → ${r.input.value === "" ? "?" : settingText(r.name, r.input.value)}`).join(", "));
    apply.disabled = discard.disabled = all.length === 0;
  }

  function submit() {
    const all = edited();
    const wrong = all.find((r) => !r.input.checkValidity());
    if (wrong) {
      attr(result, "data-outcome", "bad");
      say(result, `${wrong.name}: ${wrong.input.validationMessage}`);
      wrong.input.focus();
      return;
    }
    change(Object.fromEntries(all.map((r) => [r.json, r.name === "strategy" ? r.input.value : Number(r.input.value)])), pool);
  }

  // change sets, and says at the form what came of it.
  async function change(config, of) {
    apply.disabled = true;
    attr(result, "data-outcome", null);
    say(result, "Setting …");
    const outcome = await set(config, of);
    if (of !== pool) return;
    attr(result, "data-outcome", outcome.good ? "good" : "bad");
    say(result, outcome.text);
    refresh();
  }

  // set changes settings of a pool; without any it goes back to the configuration. What came of
  // it is good or not, with words. What is being edited and was not set stays as it is.
  async function set(config, of) {
    let answer;
    try {
      answer = await call("SetRoutingConfig", config ? { pool: of, config } : { pool: of, reset: true });
    } catch (err) {
      if (err.code === "unauthenticated") refused(err);
      return { good: false, text: `Not set: ${err.message}` };
    }
    const what = difference(answer.before, answer.config);
    if (of === pool) {
      const stay = config ? edited().filter((r) => config[r.json] === undefined) : [];
      take(answer.config);
      for (const r of rows) if (!stay.includes(r)) r.input.value = present[r.json];
      if (what.length > 0) undo = { pool: of, config: Object.fromEntries(fields.filter((f) => String(answer.before[f.json] ?? 0) !== String(answer.config[f.json] ?? 0)).map((f) => [f.json, answer.before[f.json] ?? 0])) };
      back.hidden = undo === null;
      refresh();
    }
    changed();
    return { good: true, text: what.length === 0 ? "Nothing had to be changed." : `Set: ${what.join(", ")}. ${answer.shared ? "All routers that share Redis follow." : "It lasts until this router ends; put it into the configuration to keep it."}` };
  }

  function take(config) {
    present = Object.fromEntries(fields.map((f) => [f.json, config[f.json] ?? 0]));
  }

  return {
    node: form,
    set: (config) => set(config, pool),
    render(name, routing) {
      const untouched = present === null || name !== pool ? rows : rows.filter((r) => !edited().includes(r));
      if (name !== pool) {
        say(result, "");
        undo = null;
        back.hidden = true;
      }
      pool = name;
      take(routing.config);
      for (const r of untouched) if (r.input.value !== String(present[r.json])) r.input.value = present[r.json];
      const changes = routing.changed ?? {};
      for (const r of rows) say(r.mark, changes[r.json] === undefined ? "" : "set at run time");
      reset.disabled = Object.keys(changes).length === 0;
      refresh();
    },
  };
}
