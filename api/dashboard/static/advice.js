// What the pool's own traffic says its settings should be.
import { axis, Chart, color, markers } from "./chart.js";
import { attr, el, say } from "./dom.js";
import { clock, count, exact, parseDuration, percent, points, seconds, sentence, settingText } from "./format.js";
import { call } from "./rpc.js";
import { difference, jsonName } from "./settings.js";

const drawn = ["prefix_length", "concurrency_threshold"];
const titles = {
  prefix_length: "prefix_length", concurrency_threshold: "concurrency_threshold", min_match_ratio: "min_match_ratio", strategy: "strategy", backends: "number of backends",
};
const verdicts = { set: "better value found", keep: "keep", flat: "makes no difference", unsure: "not proven" };

const measure = (m = {}) => ({
  hitRate: m.hitRate ?? 0, p50: parseDuration(m.ttftP50) ?? 0, p90: parseDuration(m.ttftP90) ?? 0, overflow: m.overflowShare ?? 0, skew: m.skew ?? 0, prefixes: count(m.distinctPrefixes),
});

// effective is where a value stands on the axis: 0 means that the whole prompt counts.
const position = (value, all) => (Number(value) > 0 ? Number(value) : Math.max(...all.map((p) => Number(p.value))));

// curve draws the hit rate and the P90 of a setting's values.
function curve(of) {
  const values = of.points.map((p) => Number(p.value)).filter((v) => v > 0);
  const ticks = values.filter((v, i) => values.length <= 7 || i % 2 === 0);
  const chart = new Chart(220, () => ({
    scales: { x: { time: false, distr: 3, log: 2, range: [values[0], values.at(-1)] }, y: { range: (u, low, high) => [Math.max(0, Math.min(low, 1) - 0.05), Math.min(1, high + 0.05)] }, s: { range: (u, low, high) => [0, high * 1.15 || 1] } },
    axes: [
      axis({ size: 30, splits: () => ticks, filter: (u, splits) => splits, values: (u, splits) => splits.map((v) => (v >= 1024 && v % 1024 === 0 ? (v >= 1048576 ? "1M" : `${v / 1024}k`) : String(v))) }),
      axis({ size: 52, values: (u, all) => all.map((v) => `${Number((100 * v).toFixed(1))} %`) }),
      axis({ scale: "s", side: 1, size: 52, grid: { show: false }, values: (u, all) => all.map((v) => seconds(v)) }),
    ],
    series: [{}, { stroke: color("--delivered"), width: 2.5, points: { show: true, size: 6, fill: color("--delivered") } },
      { scale: "s", stroke: color("--captured"), width: 1.5, dash: [5, 4], points: { show: true, size: 5, fill: color("--panel") } }],
    hooks: {
      draw: [markers(() => [
        { at: position(of.present, of.points), text: "now", color: color("--muted"), dashed: true },
        ...(of.verdict === "set" ? [{ at: position(of.advised, of.points), text: "advised", color: color("--accent") }] : []),
      ])],
    },
    readout: (u, i) => `${of.setting} ${exact(u.data[0][i])}: hit rate ${percent(u.data[1][i])}, P90 TTFT ${seconds(u.data[2][i])}`,
  }));
  const shown = of.points.filter((p) => Number(p.value) > 0);
  chart.set([shown.map((p) => Number(p.value)), shown.map((p) => measure(p.measure).hitRate), shown.map((p) => measure(p.measure).p90)]);
  chart.label(`Chart of ${of.setting}: hit rate from ${percent(measure(of.points[0].measure).hitRate)} at ${of.points[0].value} to ${percent(measure(of.points.at(-1).measure).hitRate)} at ${of.points.at(-1).value}; now ${of.present}${of.verdict === "set" ? `, advised ${of.advised}` : ""}. The table below has every value.`);
  return chart;
}

// sheet is a curve's values as a table.
function sheet(of) {
  const head = ["value", "hit rate", "P50 TTFT", "P90 TTFT", "overflow", "busiest ÷ mean"];
  return el("details", {}, el("summary", { text: `${titles[of.setting] ?? of.setting}: every value` }),
    el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `values of ${of.setting}` }, el("table", {},
      el("thead", {}, el("tr", {}, ...head.map((h, i) => el("th", { scope: "col", class: i ? "number" : null, text: h })))),
      el("tbody", {}, ...of.points.map((p) => {
        const m = measure(p.measure);
        const marks = [p.value === of.present ? "now" : "", p.value === of.advised && of.verdict === "set" ? "advised" : ""].filter(Boolean).join(", ");
        return el("tr", {}, el("th", { scope: "row" }, settingText(of.setting, p.value), marks ? el("span", { class: "mark", text: marks }) : null),
          ...[percent(m.hitRate), seconds(m.p50), seconds(m.p90), percent(m.overflow), m.skew.toFixed(2)].map((t) => el("td", { class: "number", text: t })));
      })))));
}

const interval = (i, write) => (i ? `${write(i.estimate ?? 0)} (${write(i.low ?? 0)} … ${write(i.high ?? 0)})` : "–");

// effect says what a change does.
function effect(change) {
  if (!change) return "";
  const relative = (n) => `${n < 0 ? "−" : "+"}${Math.abs(100 * n).toFixed(0)} %`;
  return `Expected: hit rate ${interval(change.hitRate, points)} points, P90 TTFT ${interval(change.ttftP90, relative)}.`;
}

// setter is a button that sets a change, with what came of it below. apply sets; left says what
// there is still to set.
function setter(text, properties, change, apply, left) {
  const outcome = el("p", { class: "result", role: "status" });
  const tell = (text, quality) => {
    attr(outcome, "data-outcome", quality);
    say(outcome, text);
  };
  let setting = false;
  const button = el("button", { type: "button", text, ...properties, onclick: async () => {
    if (setting) return;
    if (left(change).length === 0) {
      tell("There is nothing to set: the pool is routed like that.");
      return;
    }
    setting = true;
    tell("Setting …");
    const came = await apply(change);
    setting = false;
    tell(came.text, came.good ? "good" : "bad");
  } });
  return {
    node: el("div", { class: "setter" }, button, outcome),
    // refresh keeps the button where it is, so that whoever is on it stays there.
    refresh() {
      const done = left(change).length === 0;
      if (!done && button.textContent !== text) tell(""); // it was taken back
      attr(button, "aria-disabled", done ? "true" : null);
      say(button, done ? "Applied" : text);
    },
  };
}

// lacking says why there is no advice.
function lacking(a) {
  const { from, to, requests } = a.evidence ?? {};
  const remembered = count(requests) === 0 ? "No request is remembered yet."
    : `Remembered: ${exact(count(requests))} requests, in ${seconds((Date.parse(to) - Date.parse(from)) / 1000)} of the router’s clock.`;
  return el("div", { class: "empty" }, el("p", { class: "empty-title", text: "Too little to go by yet" }),
    el("p", { text: sentence(a.tooLittle) }), el("p", { text: remembered }));
}

// advice is the panel. apply sets what is advised.
export function advice(apply) {
  let pool = "";
  let routed = null; // how the pool is, now
  let given = null; // what is shown
  let setters = [];
  let asking = null;
  let plots = [];
  const ask = el("button", { type: "button", class: "primary", id: "ask-advice", text: "Work out advice", onclick: () => start() });
  const stop = el("button", { type: "button", text: "Stop", hidden: true, onclick: () => end() });
  const progress = el("progress", { hidden: true, "aria-label": "replays that are through" });
  const status = el("p", { class: "result", role: "status" });
  const intro = el("p", { class: "help", text: "Replays the requests that ended last with other settings, on modelled engines, and says which would have been better. It takes one core of the router for some seconds to minutes." });
  const body = el("div", { class: "advised" });
  const node = el("div", { id: "advice" }, el("h3", { text: "Advice" }), intro, el("div", { class: "buttons" }, ask, stop, progress), status, body);

  function end(text = "") {
    asking = null;
    ask.disabled = false;
    stop.hidden = progress.hidden = true;
    say(status, text);
  }

  // start asks until the advice is for the pool as it is. Who asks no more lets it end.
  async function start() {
    const mine = asking = {};
    const of = pool;
    ask.disabled = true;
    stop.hidden = progress.hidden = false;
    progress.removeAttribute("value");
    attr(status, "data-outcome", null);
    say(status, "Replaying …");
    try {
      while (asking === mine) {
        const answer = await call("GetAdvice", { pool: of, wait: "1s" }, 30000);
        if (asking !== mine) return;
        if (!answer.progress) {
          show(answer.advice);
          end(`Worked out at ${clock(Date.parse(answer.advice.made))}.`);
          say(ask, "Work it out again");
          return;
        }
        const { through = 0, wanted = 0 } = answer.progress;
        if (wanted > 0) {
          progress.max = wanted;
          progress.value = through;
          say(status, `${through} of ${wanted} replays so far`);
        } else say(status, "Waiting for the advice of another pool.");
      }
    } catch (err) {
      if (asking !== mine) return;
      end(`No advice: ${err.message}`);
      attr(status, "data-outcome", "bad");
    }
  }

  function clear() {
    plots.forEach((p) => p.remove());
    plots = setters = [];
    given = null;
    body.replaceChildren();
  }

  const left = (change) => difference(routed, change);
  const toSet = (text, properties, change) => {
    setters = [...setters, setter(text, properties, change, apply, left)];
    return setters.at(-1).node;
  };
  const otherwise = el("p", { class: "otherwise" });

  // refresh holds what was advised against how the pool is routed by now.
  function refresh() {
    if (!given) return;
    for (const s of setters) s.refresh();
    const followed = Object.entries(given.change ?? {}).filter(([name, value]) => String(routed[name]) === String(value));
    const others = difference({ ...given.present, ...Object.fromEntries(followed) }, routed);
    say(otherwise, others.length > 0 ? `Since this was worked out, the pool was set otherwise: ${others.join(", ")}. Work it out again.` : "");
  }

  function show(a) {
    clear();
    if (a.tooLittle) {
      body.append(lacking(a));
      return;
    }
    given = a;
    const e = a.evidence ?? {};
    const rests = `It rests on ${exact(count(e.requests))} requests of ${seconds((Date.parse(e.to) - Date.parse(e.from)) / 1000)}, of which ${exact(count(e.counted))} count.`;
    const now = measure(a.now);
    const then = measure(a.then);
    const change = a.change && Object.keys(a.change).length > 0 ? a.change : null;
    const differences = change ? difference(a.present, change) : [];
    body.append(el("div", { class: "verdict", dataset: { verdict: change ? "set" : "keep" } },
      el("p", { class: "verdict-title", text: change ? `Set ${differences.join(", ")}` : "The pool is well routed: nothing better is proven." }),
      el("p", { text: change ? `In replay: hit rate ${percent(now.hitRate)} → ${percent(then.hitRate)}, P90 TTFT ${seconds(now.p90)} → ${seconds(then.p90)}. ${effect(a.expected)}` : `In replay: hit rate ${percent(now.hitRate)}, P90 TTFT ${seconds(now.p90)}, overflow ${percent(now.overflow)}.` }),
      el("p", { class: "help", text: `${rests} Engines reported a hit rate of ${e.hitRate === undefined ? "–" : percent(e.hitRate)} and the measured P90 was ${seconds(parseDuration(e.ttftP90))}.` }),
      otherwise, change ? toSet("Apply advice", { class: "primary", id: "apply-advice" }, change) : null));
    const curves = a.curves ?? [];
    const row = el("div", { class: "twice" });
    body.append(row);
    for (const c of curves.filter((c) => drawn.includes(c.setting) && (c.points ?? []).length > 1)) {
      const chart = curve(c);
      plots.push(chart);
      const set = c.verdict === "set";
      row.append(el("figure", { class: "curve", dataset: { setting: c.setting } },
        el("figcaption", {}, el("strong", { text: c.setting }), el("span", { class: "badge", dataset: { verdict: c.verdict }, text: verdicts[c.verdict] ?? c.verdict })),
        el("p", { class: "values" }, "now ", el("data", { value: c.present, text: settingText(c.setting, c.present) }), set ? ", advised " : null, set ? el("data", { class: "advised-value", value: c.advised, text: settingText(c.setting, c.advised) }) : null),
        el("ul", { class: "key" }, el("li", {}, el("span", { class: "swatch", "data-color": "delivered", "aria-hidden": "true" }), "hit rate (left)"), el("li", {}, el("span", { class: "swatch", "data-color": "captured", "aria-hidden": "true" }), "P90 TTFT (right)")),
        chart.node, c.reason ? el("p", { class: "help", text: sentence(c.reason) }) : null, set ? el("p", { class: "help", text: effect(c.change) }) : null,
        set ? toSet(`Apply ${settingText(c.setting, c.advised)}`, { dataset: { apply: c.setting } }, { [jsonName(c.setting)]: Number(c.advised) }) : null));
    }
    body.append(...curves.filter((c) => (c.points ?? []).length > 0).map(sheet));
    if ((a.cautions ?? []).length > 0) body.append(el("h4", { text: "What would make it wrong" }), el("ul", { class: "cautions" }, ...a.cautions.map((text) => el("li", { text }))));
    refresh();
  }

  return {
    node,
    render(name, config) {
      routed = config;
      if (name === pool) {
        refresh();
        return;
      }
      pool = name;
      end();
      clear();
      say(ask, "Work out advice");
    },
  };
}
