// The fleet: a row for each backend.
import { attr, el, empty, keyed, meter, say, tell } from "./dom.js";
import { amount, exact, percent, seconds } from "./format.js";
import { now } from "./rpc.js";

const columns = ["Backend", "State", "In flight", "Queued tokens", "KV in use", "Hit rate", "Horizon", "Prefill"];
const glyphs = { up: "●", cooling: "◐", ejected: "✕", draining: "◌", asleep: "☾", unreachable: "✕" };
const meanings = {
  up: "takes requests", cooling: "its engine asked for a pause", ejected: "failed several times in a row",
  draining: "finishes what it has and takes nothing new", asleep: "its engine says that it sleeps", unreachable: "does not answer",
};

// stateOf is a state as it is shown.
export function stateOf() {
  const glyph = el("span", { "aria-hidden": "true" });
  const text = el("span");
  const node = el("span", { class: "state" }, glyph, text);
  return {
    node,
    show(state) {
      say(glyph, glyphs[state] ?? "?");
      say(text, state);
      attr(node, "data-state", state);
      attr(node, "title", meanings[state] ?? null);
    },
  };
}

function cell(column, ...children) {
  return el("td", { role: "cell", "data-column": column }, ...children);
}

// hitPair is a predicted and a delivered hit rate, one below the other.
function hitPair() {
  const line = (name) => {
    const fill = el("span", { class: "fill" });
    const value = el("data", {});
    const bar = el("span", { class: `meter ${name}`, "aria-hidden": "true" }, fill);
    return { node: el("span", { class: "pair-line" }, el("span", { class: "pair-name", text: name }), bar, value), fill, value };
  };
  const predicted = line("predicted");
  const delivered = line("delivered");
  return {
    node: el("span", { class: "pair" }, predicted.node, delivered.node),
    show(h) {
      for (const [one, part, of] of [[predicted, h.predicted, h.prompt], [delivered, h.delivered, h.reported]]) {
        tell(one.value, percent(part, of), of ? part / of : null);
        one.fill.style.width = `${of ? (100 * Math.min(1, part / of)).toFixed(1) : 0}%`;
      }
    },
  };
}

function row(first) {
  const name = el("span", { class: "name", text: first.id });
  const more = el("span", { class: "more" });
  const warning = el("span", { class: "warning" });
  const state = stateOf();
  const flight = meter();
  const queued = el("data");
  const wait = el("span", { class: "more" });
  const kv = meter();
  const engine = el("span", { class: "more" });
  const hit = hitPair();
  const horizon = el("data");
  const rate = el("data");
  const node = el("tr", { role: "row", dataset: { backend: first.id } },
    el("th", { role: "rowheader", scope: "row", "data-column": columns[0] }, name, more, warning),
    cell(columns[1], state.node), cell(columns[2], flight.node), cell(columns[3], queued, wait), cell(columns[4], kv.node, engine),
    cell(columns[5], hit.node), cell(columns[6], horizon), cell(columns[7], rate));
  return {
    node,
    update(b) {
      say(more, [b.models.join(", "), b.weight === 1 ? "" : `weight ${b.weight}`, b.registered ? "registered" : ""].filter(Boolean).join(" · "));
      const wrong = b.neverConfirmed ? "never confirmed a hit: is prefix caching on?" : b.silent ? "does not report cached tokens" : "";
      say(warning, wrong);
      warning.hidden = wrong === "";
      state.show(b.state);
      flight.show(b.limit ? b.inFlight / b.limit : null, `${exact(b.inFlight)} / ${exact(b.limit)}`, b.inFlight);
      tell(queued, amount(b.queued), b.queued);
      say(wait, b.queued ? `${seconds(b.queued / Math.max(1, b.rate))} of prefill` : "");
      kv.show(b.kv, b.kv === null ? "not said" : percent(b.kv), b.kv);
      say(engine, b.running === null ? "" : `${b.running} running, ${b.waiting ?? "?"} waiting`);
      hit.show(b.hits);
      tell(horizon, b.horizon === null ? "never moved" : `${seconds(Math.max(0, now() - b.horizon) / 1000)} ago`, b.horizon);
      tell(rate, `${amount(b.rate)}/s`, b.rate);
    },
  };
}

export function fleet(root) {
  const body = el("tbody", { role: "rowgroup" });
  const table = el("div", { class: "scroll" }, el("table", { role: "table", class: "cards fleet", "aria-labelledby": "fleet-title" },
    el("thead", { role: "rowgroup" }, el("tr", { role: "row" }, ...columns.map((c) => el("th", { role: "columnheader", scope: "col", text: c })))), body));
  const nobody = empty("This pool has no backends", "List some in the configuration, let discovery find them, or register one:",
    "warmroute backends add http://host:8000");
  root.append(table, nobody);
  return {
    render({ backends }) {
      table.hidden = backends.length === 0;
      nobody.hidden = backends.length > 0;
      keyed(body, backends, (b) => b.id, row);
    },
  };
}
