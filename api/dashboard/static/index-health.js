// The index, and how far it is shared.
import { attr, el, empty, keyed, meter, say, tell } from "./dom.js";
import { amount, exact, percent, seconds } from "./format.js";
import { now } from "./rpc.js";

const columns = ["Backend", "Blocks", "Evicted", "Horizon"];
const meanings = {
  fresh: "What this router writes comes back to it: routers know what the others know.",
  cut: "The other routers are not heard now. Each goes on with what it knows; nothing waits for Redis.",
  alone: "Redis is not heard now. This router works on its own; nothing waits for Redis.",
  unheard: "Redis has not been heard yet. This router works on its own.",
};

// heard reports whether Redis has answered at all: its clock was compared then.
const heard = (sharing) => sharing.clockOffset !== null;

function row(first) {
  const blocks = meter();
  blocks.node.classList.add("plain"); // a full index is as it should be
  const evicted = el("data");
  const horizon = el("data");
  const cell = (i, ...c) => el("td", { role: "cell", "data-column": columns[i] }, ...c);
  const node = el("tr", { role: "row" }, el("th", { role: "rowheader", scope: "row", "data-column": columns[0], class: "name", text: first.id }),
    cell(1, blocks.node), cell(2, evicted), cell(3, horizon));
  return {
    node,
    update(b) {
      blocks.show(b.capacity ? b.blocks / b.capacity : null, `${amount(b.blocks)} / ${amount(b.capacity)}`, b.blocks);
      tell(evicted, exact(b.evicted), b.evicted);
      tell(horizon, b.horizon === null ? "never moved" : `${seconds(Math.max(0, now() - b.horizon) / 1000)} ago`, b.horizon);
    },
  };
}

export function indexHealth(root) {
  const body = el("tbody", { role: "rowgroup" });
  const note = el("p", { class: "help" });
  const table = el("div", { class: "scroll" }, el("table", { role: "table", class: "cards", "aria-labelledby": "index-title" },
    el("thead", { role: "rowgroup" }, el("tr", { role: "row" }, ...columns.map((c) => el("th", { role: "columnheader", scope: "col", text: c })))), body));
  const nothing = empty("Nothing is indexed", "There are no backends.");
  const state = el("span", { class: "state", id: "redis-state" });
  const meaning = el("p", { class: "help" });
  const facts = el("dl", { class: "facts" });
  const shared = el("div", { class: "redis" }, el("h3", {}, "Redis ", state), meaning, facts);
  root.append(el("div", { class: "twice wide-left" }, el("div", {}, table, nothing, note), shared));
  return {
    render({ backends, sharing }) {
      table.hidden = backends.length === 0;
      nothing.hidden = backends.length > 0;
      keyed(body, backends, (b) => b.id, row);
      const bytes = backends[0]?.blockBytes;
      say(note, bytes ? `A block is ${bytes} bytes of prompt. ${exact(backends.reduce((n, b) => n + b.blocks, 0))} are held in all.` : "");
      say(state, sharing ? sharing.state : "not used");
      attr(state, "data-state", sharing ? { fresh: "up", cut: "ejected", alone: "cooling" }[sharing.state] : null);
      say(meaning, sharing ? meanings[sharing.state === "alone" && !heard(sharing) ? "unheard" : sharing.state] ?? "" : "This router keeps its index to itself. Where several routers serve one fleet, name a Redis in the configuration (redis) and they share it.");
      keyed(facts, sharing ? [
        ["Other routers heard", exact(sharing.peers)], ["Breaker", sharing.breaker], ["Last heard itself", heard(sharing) ? `${seconds(sharing.syncAge)} ago` : "not yet"],
        ["Stream lag", seconds(sharing.lag)], ["Clock offset", sharing.clockOffset === null ? "–" : `${Math.round(1000 * sharing.clockOffset)} ms`],
        ["Waiting to be written", exact(sharing.queued)], ["Published", exact(sharing.published)],
        ["Dropped", `${exact(sharing.dropped)} (${percent(sharing.dropped, sharing.published)})`], ["Received", exact(sharing.received)],
        ["Backends to restore", exact(sharing.restoring)], ["Failed commands", exact(sharing.failures)],
        ...(sharing.lastError ? [["Last failure", sharing.lastError]] : []),
      ] : [], ([name]) => name, ([name]) => {
        const value = el("dd");
        return { node: el("div", { dataset: { fact: name } }, el("dt", { text: name }), value), update: ([, text]) => say(value, text) };
      });
    },
  };
}
