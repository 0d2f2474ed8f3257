// The few numbers on top.
import { el, say, tell } from "./dom.js";
import { amount, exact, percent, seconds } from "./format.js";

function card(title) {
  const value = el("data", { class: "big", text: "–" });
  const under = el("span", { class: "under" });
  return { node: el("div", { class: "card" }, el("span", { class: "title", text: title }), value, under), value, under };
}

export function glance(root) {
  const hit = card("Hit rate");
  const cached = card("Tokens from caches");
  const captured = card("Captured of available");
  const flight = card("In flight");
  const queued = card("Queued tokens");
  const up = card("Backends up");
  hit.node.classList.add("lead");
  root.append(hit.node, cached.node, captured.node, flight.node, queued.node, up.node);
  return {
    render({ backends, hits }) {
      tell(hit.value, percent(hits.delivered, hits.reported), hits.reported ? hits.delivered / hits.reported : null);
      say(hit.under, hits.prompt ? `predicted ${percent(hits.predicted, hits.prompt)}` : "no prompt tokens in the window");
      tell(cached.value, amount(hits.delivered), hits.delivered);
      say(cached.under, `of ${exact(hits.prompt)} prompt tokens`);
      tell(captured.value, percent(hits.captured, hits.available), hits.available ? hits.captured / hits.available : null);
      say(captured.under, hits.available ? `${amount(Math.max(0, hits.available - hits.captured))} went past their cache` : "nothing was cached anywhere");
      const usable = backends.filter((b) => b.state === "up");
      const sum = (of) => backends.reduce((n, b) => n + of(b), 0);
      tell(flight.value, exact(sum((b) => b.inFlight)), sum((b) => b.inFlight));
      say(flight.under, `of ${exact(usable.reduce((n, b) => n + b.limit, 0))} at the thresholds`);
      tell(queued.value, amount(sum((b) => b.queued)), sum((b) => b.queued));
      const waits = usable.map((b) => b.queued / Math.max(1, b.rate));
      say(queued.under, waits.length ? `longest queue ${seconds(Math.max(...waits))}` : "–");
      tell(up.value, `${usable.length} / ${backends.length}`, usable.length);
      const others = backends.filter((b) => b.state !== "up").map((b) => b.state);
      say(up.under, others.length ? [...new Set(others)].map((s) => `${others.filter((o) => o === s).length} ${s}`).join(", ") : backends.length ? "all of them" : "none yet");
      up.node.classList.toggle("alarm", others.length > 0 || backends.length === 0);
    },
  };
}
