// The latest decisions, and those that end while the page is open.
import { attr, el, empty, keyed, say, tell } from "./dom.js";
import { clock, count, exact, parseDuration, percent, seconds, words } from "./format.js";
import { call, stream } from "./rpc.js";

const kept = 40; // rows
const perSecond = 10;
const redrawEvery = 400; // milliseconds
const columns = ["Time", "Backend", "Reason", "Prompt", "Available", "Predicted", "Cached", "TTFT", "Result"];

function candidates(d) {
  const all = d.candidates ?? [];
  if (all.length === 0) return el("p", { class: "help", text: `${count(d.eligible)} backends took part. Who they were is kept while somebody watches; this one was made before.` });
  const head = ["Backend", "Holds", "Predicted", "Queued", "In flight", "Cost"];
  return el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "candidates" }, el("table", { class: "candidates" },
    el("caption", { text: all.length < count(d.eligible) ? `The foremost ${all.length} of ${count(d.eligible)} backends that took part` : "The backends that took part" }),
    el("thead", {}, el("tr", {}, ...head.map((h, i) => el("th", { scope: "col", class: i ? "number" : null, text: h })))),
    el("tbody", {}, ...all.map((c) => el("tr", { dataset: c.place ? { chosen: "yes" } : {} },
      el("th", { scope: "row" }, c.target.backend, c.place ? el("span", { class: "mark", text: "chosen" }) : null, c.full ? el("span", { class: "mark", text: "full" }) : null),
      ...[`${exact(count(c.matchedTokens))} tokens`, exact(count(c.predictedCachedTokens)), exact(count(c.queuedTokens)), `${count(c.inFlight)} / ${count(c.limit)}`, exact(Math.round(c.cost ?? 0))]
        .map((t) => el("td", { class: "number", text: t })))))));
}

function facts(d) {
  const pairs = [["Decision", d.decisionId], ["Strategy", d.strategy], ["Model", d.model], ["Endpoint", d.route], ["Took", seconds(parseDuration(d.duration))], ["Attempts", String(count(d.attempts))], ["Request", d.requestId]];
  return el("dl", { class: "facts" }, ...pairs.filter(([, v]) => v).map(([k, v]) => el("div", {}, el("dt", { text: k }), el("dd", { text: v }))));
}

function cell(i, ...children) {
  return el("td", { role: "cell", "data-column": columns[i], class: i >= 3 && i <= 7 ? "number" : null }, ...children);
}

function row(first, opened) {
  const d = first;
  const id = `decision-${d.decisionId}`;
  const u = d.usage ?? {};
  const detail = el("div", { class: "detail", id, hidden: true });
  const toggle = el("button", { type: "button", class: "toggle", "aria-expanded": "false", "aria-controls": id, text: clock(Date.parse(d.start)) });
  toggle.addEventListener("click", () => {
    const open = detail.hidden;
    detail.hidden = !open;
    attr(toggle, "aria-expanded", String(open));
    if (open && !detail.firstChild) detail.append(el("p", { class: "why", text: d.explanation }), facts(d), candidates(d));
    opened(d.decisionId, open);
  });
  const prompt = u.promptTokens ?? d.estimatedPromptTokens;
  const cached = u.cachedTokens;
  const line = el("tr", { role: "row", dataset: { decision: d.decisionId, result: d.result } },
    cell(0, toggle), cell(1, d.backend), cell(2, el("span", { class: "reason", dataset: { overflow: d.overflow ? "yes" : "no" }, text: words(d.reason ?? "") })),
    cell(3, el("data", { value: count(prompt), text: exact(count(prompt)) })), cell(4, exact(count(d.availableCachedTokens))), cell(5, exact(count(d.predictedCachedTokens))),
    cell(6, cached === undefined ? "not said" : `${exact(cached)} (${percent(cached, count(prompt))})`), cell(7, d.ttft ? seconds(parseDuration(d.ttft)) : "–"),
    cell(8, el("span", { class: "outcome", dataset: { result: d.result }, text: words(d.result ?? "") })));
  const more = el("tr", { role: "row", class: "more-row" }, el("td", { role: "cell", colspan: columns.length }, detail));
  const node = el("tbody", { role: "rowgroup" }, line, more);
  return { node, update() {} };
}

export function decisions(root, tools, failed) {
  let pool = null;
  let all = [];
  let waiting = [];
  let missed = 0;
  let paused = false;
  let open = new Set();
  let abort = null;
  let drawn = 0;
  const pause = el("button", { type: "button", "aria-pressed": "false", text: "Pause", onclick: () => hold(!paused) });
  const status = el("span", { class: "help", id: "decisions-status" });
  tools.append(status, pause);
  const table = el("table", { role: "table", class: "cards decisions", "aria-labelledby": "decisions-title" },
    el("thead", { role: "rowgroup" }, el("tr", { role: "row" }, ...columns.map((c, i) => el("th", { role: "columnheader", scope: "col", class: i >= 3 && i <= 7 ? "number" : null, text: c })))));
  const scroll = el("div", { class: "scroll tall", tabindex: "0", role: "region", "aria-label": "latest decisions" }, table);
  const quiet = empty("No decisions yet", "As soon as a request to this pool has ended, it is listed here with the reason why it went where it went.");
  root.append(scroll, quiet);
  const rows = { parent: table };

  function hold(on) {
    paused = on;
    attr(pause, "aria-pressed", String(on));
    say(pause, on ? "Resume" : "Pause");
    draw();
  }

  function opened(id, is) {
    if (is) open.add(id);
    else open.delete(id);
    if (is && !paused) hold(true); // what is read must not move
  }

  function draw() {
    drawn = performance.now();
    if (!paused) {
      all = [...waiting.reverse(), ...all].slice(0, kept);
      waiting = [];
    }
    say(status, paused ? `paused, ${waiting.length >= kept ? `${kept} or more` : waiting.length} new` : missed > 0 ? `${exact(missed)} more not shown` : "");
    quiet.hidden = all.length > 0;
    scroll.hidden = all.length === 0;
    keyed(rows.parent, all, (d) => d.decisionId, (d) => row(d, opened));
  }

  function heed(message) {
    missed += count(message.missed);
    waiting.push(message.decision);
    if (waiting.length > kept) waiting.shift();
    if (performance.now() - drawn > redrawEvery) draw();
  }

  // follow lists and then follows, again and again, while the page is looked at.
  async function follow(signal) {
    const { decisions: latest = [] } = await call("ListDecisions", { pool, limit: kept });
    if (signal.aborted) return;
    all = latest;
    waiting = [];
    missed = 0;
    draw();
    const timer = setInterval(() => waiting.length > 0 && draw(), redrawEvery);
    try {
      await stream("WatchDecisions", { pool, perSecond }, heed, signal);
    } finally {
      clearInterval(timer);
    }
  }

  async function run() {
    abort?.abort();
    const mine = abort = new AbortController();
    while (!mine.signal.aborted) {
      try {
        await follow(mine.signal);
      } catch (err) {
        if (mine.signal.aborted) return;
        failed(err);
      }
      await new Promise((done) => setTimeout(done, 1000));
    }
  }

  return {
    // start follows the decisions of a pool; stop ends that.
    start(name) {
      if (name === pool && abort && !abort.signal.aborted) return;
      if (name !== pool) {
        pool = name;
        open = new Set();
        all = [];
        waiting = [];
        hold(false);
      }
      run();
    },
    stop() {
      abort?.abort();
    },
  };
}
