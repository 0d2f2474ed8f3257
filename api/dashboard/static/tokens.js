// The four-way account of prompt tokens over time, and why tokens were not delivered.
import { axis, Chart, color, timeAxis } from "./chart.js";
import { el, empty, say, tell } from "./dom.js";
import { amount, clock, exact, hitsOf, percent } from "./format.js";

// The account, from what could have been to what was.
const account = [
  { name: "available", label: "Available", color: "--available", of: "prompt", means: "cached on the best eligible backend, as far as is known" },
  { name: "captured", label: "Captured", color: "--captured", of: "prompt", means: "cached on the backend that was chosen" },
  { name: "predicted", label: "Predicted", color: "--predicted", of: "prompt", dash: [6, 4], means: "expected to be reported, after calibration" },
  { name: "delivered", label: "Delivered", color: "--delivered", of: "reported", means: "reported by engines: the hit rate" },
];

// Where all prompt tokens went, from the bottom of the chart to its top.
const causes = [
  { name: "delivered", label: "Delivered", color: "--delivered", help: "Came out of a cache." },
  { name: "loadChoice", label: "Load choice", color: "--load-choice", help: "Another backend was cheaper, or the strategy does not look." },
  { name: "overflow", label: "Overflow", color: "--overflow", help: "Their holder was full: raise concurrency_threshold, or add engines." },
  { name: "staleIndex", label: "Stale index", color: "--stale-index", help: "The backend was thought to hold them, and did not." },
  { name: "unreported", label: "Unreported", color: "--unreported", help: "The engine did not say: start vLLM with --enable-prompt-tokens-details." },
  { name: "noReuse", label: "No reuse", color: "--no-reuse", help: "Nobody held them: new text." },
];

const swatch = (c) => el("span", { class: "swatch", "data-color": c.slice(2), "aria-hidden": "true" });
const y = { size: 62 };
const sync = { key: "tokens" };

// shares draws the account in parts of the prompt tokens of each step.
function sharesChart() {
  return new Chart(230, () => ({
    scales: { y: { range: [0, 1] } },
    cursor: { sync },
    axes: [timeAxis(), axis({ ...y, values: (u, ticks) => ticks.map((t) => `${Math.round(100 * t)} %`) })],
    series: [{}, ...account.map((a) => ({
      stroke: color(a.color), width: a.name === "delivered" ? 2.5 : 1.5, dash: a.dash, points: { show: false },
      fill: a.name === "delivered" ? `${color(a.color)}22` : undefined, spanGaps: false,
    }))],
    readout: (u, i) => `${clock(1000 * u.data[0][i])}  ${account.map((a, k) => `${a.label.toLowerCase()} ${percent(u.data[k + 1][i])}`).join(", ")}`,
  }));
}

// causesChart stacks rates: each series is drawn with all below it, the highest first.
function causesChart() {
  return new Chart(230, () => ({
    scales: { y: { range: (u, low, high) => [0, high > 0 ? high * 1.08 : 1] } },
    cursor: { sync, points: { show: false } },
    axes: [timeAxis(), axis({ ...y, values: (u, ticks) => ticks.map((t) => `${amount(t)}/s`) })],
    series: [{}, ...[...causes].reverse().map((c) => ({ stroke: color(c.color), fill: color(c.color), width: 0.5, points: { show: false } }))],
    readout: (u, i) => {
      const at = (k) => u.data[k]?.[i] ?? 0;
      const parts = [...causes].reverse().map((c, k) => [c.label.toLowerCase(), at(k + 1) - at(k + 2)]);
      return `${clock(1000 * u.data[0][i])}  ${parts.reverse().filter(([, n]) => n >= 0.5).map(([l, n]) => `${l} ${amount(n)}/s`).join(", ") || "no tokens"}`;
    },
  }));
}

export function tokens(root, note) {
  const shares = sharesChart();
  const stacked = causesChart();
  const key = (all) => el("ul", { class: "key" }, ...all.map((a) => el("li", {}, swatch(a.color), a.label)));
  const figure = (title, chart, all) => el("figure", {}, el("figcaption", { text: title }), key(all), chart.node);
  const cells = new Map();
  const line = (a, help) => {
    const value = el("data", { text: "–" });
    const part = el("span", { class: "part", text: "–" });
    cells.set(a.name + (a.of ?? ""), { value, part });
    return el("tr", {}, el("th", { scope: "row" }, swatch(a.color), a.label), el("td", { class: "number" }, value), el("td", { class: "number" }, part), el("td", { class: "help", text: help }));
  };
  const table = (title, id, lines) => el("table", { class: "account", id }, el("caption", { text: title }),
    el("thead", {}, el("tr", {}, ...["", "tokens", "share", ""].map((t, i) => (t ? el("th", { scope: "col", class: "number", text: t }) : el("td", { class: i ? "help" : null }))))),
    el("tbody", {}, ...lines));
  const loud = el("div", { class: "twice" },
    el("div", {}, figure("Share of each step’s prompt tokens", shares, account), table("The account", "account", account.map((a) => line(a, a.means)))),
    el("div", {}, figure("Prompt tokens a second, by what became of them", stacked, causes), table("Delivered, and lost by cause", "losses", causes.map((c) => line(c, c.help)))));
  const quiet = empty("No prompt tokens yet", "Nothing has been answered in this window. Send a request to the data port, and it shows here within seconds:",
    "curl http://ROUTER:8080/v1/chat/completions -H 'Content-Type: application/json' \\\n  -d '{\"model\": \"MODEL\", \"messages\": [{\"role\": \"user\", \"content\": \"Hello\"}]}'");
  root.append(loud, quiet);

  // step is a step of the history in seconds, rates and shares.
  const draw = (steps) => {
    const ends = steps.map((s) => Date.parse(s.to) / 1000);
    const spans = steps.map((s) => Math.max(0.001, (Date.parse(s.to) - Date.parse(s.from)) / 1000));
    const all = steps.map((s) => hitsOf(s.hits));
    shares.set([ends, ...account.map((a) => all.map((h) => (h[a.of] > 0 ? Math.min(1, h[a.name] / h[a.of]) : null)))]);
    const series = [];
    let below = all.map(() => 0);
    for (const c of causes) {
      below = all.map((h, i) => below[i] + h[c.name] / spans[i]);
      series.unshift(below);
    }
    stacked.set([ends, ...series]);
  };
  return {
    render({ hits, from }) {
      const none = hits.prompt === 0;
      quiet.hidden = !none;
      loud.hidden = none;
      say(note, none ? "" : `${exact(hits.prompt)} prompt tokens of answered requests since ${clock(from)}.`);
      for (const a of account) {
        const { value, part } = cells.get(a.name + a.of);
        tell(value, amount(hits[a.name]), hits[a.name]);
        say(part, percent(hits[a.name], hits[a.of]));
      }
      for (const c of causes) {
        const { value, part } = cells.get(c.name);
        tell(value, amount(hits[c.name]), hits[c.name]);
        say(part, percent(hits[c.name], hits.prompt));
      }
      shares.label(`Line chart of the account over time. In the window: ${account.map((a) => `${a.label.toLowerCase()} ${percent(hits[a.name], hits[a.of])}`).join(", ")}.`);
      stacked.label(`Stacked chart of prompt tokens a second. In the window: ${causes.map((c) => `${c.label.toLowerCase()} ${percent(hits[c.name], hits.prompt)}`).join(", ")}.`);
    },
    history(steps) {
      if (!loud.hidden && steps.length > 0) draw(steps);
    },
  };
}
