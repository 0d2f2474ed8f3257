// The page: what is asked, how often, and who shows it.
import { attr, el, say } from "./dom.js";
import { clock, count, hitsOf, parseDuration, sentence } from "./format.js";
import { call, hasKey, sendable, setKey } from "./rpc.js";
import { decisions } from "./decisions.js";
import { fleet } from "./fleet.js";
import { glance } from "./glance.js";
import { indexHealth } from "./index-health.js";
import { routing } from "./routing.js";
import { tokens } from "./tokens.js";
import { tuning } from "./tuning.js";

const lookEvery = 1000; // milliseconds
const historyEvery = 5000;

const $ = (id) => document.getElementById(id);
const poolName = "warmroute-pool";
let pool = sessionStorage.getItem(poolName) ?? "";
let since = Number($("window").value); // seconds; 0: since the start
let lastSeen = 0;
let lastHistory = 0;
let history = [];
let locked = false;

const panels = {
  tuning: tuning($("tuning-body"), $("tuning-state")),
  glance: glance($("glance")), fleet: fleet($("fleet-body")), tokens: tokens($("tokens-body"), $("tokens-note")),
  routing: routing($("routing-body"), () => look(), (err) => trouble(err)), index: indexHealth($("index-body")),
};
const live = decisions($("decisions-body"), $("decisions-tools"), (err) => trouble(err));

// link says how things stand with the router.
function link(state, text) {
  attr($("link"), "data-state", state);
  say($("link-text"), text);
}

function banner(text) {
  say($("banner"), text);
  $("banner").hidden = text === "";
}

// trouble shows an error of any call.
function trouble(err) {
  if (err.code === "unauthenticated") {
    lock(hasKey() ? err.message : "");
    return;
  }
  if (err.code !== "unreachable") {
    banner(`The router refused: ${err.message}`);
    return;
  }
  link("lost", "not reachable");
  $("panels").classList.toggle("stale", lastSeen > 0);
  banner(`${err.message} ${lastSeen > 0 ? `What is shown is from ${clock(lastSeen)}.` : "Nothing has been heard of it yet."} This page goes on trying.`);
}

// lock asks for a key. Answers to what was asked before may follow, with nothing to say.
function lock(error) {
  link("lost", "locked");
  banner("");
  if (error || !locked) say($("lock-error"), sentence(error));
  if (locked) return;
  locked = true;
  setKey("");
  live.stop();
  $("lock").hidden = false;
  $("panels").hidden = $("forget").hidden = true;
  $("lock-key").focus();
}

function refuse(text) {
  say($("lock-error"), sentence(text));
  $("lock-key").select();
}

// The page begins anew, and what it showed is gone with the key.
$("forget").addEventListener("click", () => {
  setKey("");
  location.reload();
});

$("lock-form").addEventListener("submit", async (e) => {
  e.preventDefault();
  const typed = $("lock-key").value.trim();
  if (!sendable(typed)) {
    refuse("That is no key: one has no spaces, and letters without accents only.");
    return;
  }
  setKey(typed, false);
  try {
    await call("GetRoutingConfig");
  } catch (err) {
    setKey("");
    refuse(err.message);
    return;
  }
  setKey(typed);
  $("lock-key").value = "";
  locked = false;
  $("lock").hidden = true;
  $("panels").hidden = false;
  look();
});

// choose offers the pools, where there are several, and returns the one that is shown.
function choose(pools) {
  const names = pools.map((p) => p.pool);
  if (!names.includes(pool)) pool = names[0] ?? "";
  $("pool-field").hidden = names.length < 2;
  if ([...$("pool").options].map((o) => o.value).join("\n") !== names.join("\n")) {
    $("pool").replaceChildren(...names.map((name) => el("option", { value: name, text: name })));
  }
  $("pool").value = pool;
  return pools.find((p) => p.pool === pool);
}

// backendsOf joins what is known of each backend.
function backendsOf(list, stats, hits) {
  const byId = (all, key) => new Map(all.map((one) => [one[key], one]));
  const indexed = byId(stats, "backend");
  const counted = byId(hits, "backend");
  return list.map((b) => {
    const s = indexed.get(b.id) ?? {};
    return {
      id: b.id, state: b.state, models: b.models ?? [], weight: b.weight ?? 1, registered: b.registered ?? false,
      inFlight: count(b.inFlight), limit: count(b.limit), queued: count(b.queuedTokens), rate: b.prefillRate ?? 0,
      running: b.engineRunning ?? null, waiting: b.engineWaiting ?? null, kv: b.kvUsage ?? null,
      silent: b.silent ?? false, neverConfirmed: b.neverConfirmed ?? false,
      horizon: s.horizon ? Date.parse(s.horizon) : null, blocks: count(s.blocks), capacity: count(s.capacity), evicted: count(s.evicted), blockBytes: count(s.blockBytes),
      hits: hitsOf(counted.get(b.id)?.hits),
    };
  });
}

function sharingOf(s) {
  if (!s) return null;
  return {
    state: s.state, peers: count(s.peers), breaker: s.breaker, syncAge: parseDuration(s.syncAge), lag: parseDuration(s.lag), clockOffset: parseDuration(s.clockOffset),
    queued: count(s.queued), published: count(s.published), dropped: count(s.dropped), received: count(s.received), restoring: count(s.restoring),
    failures: count(s.failures), lastError: s.lastError ?? "",
  };
}

// heard says that all is well with the router, or what is not.
function heard({ backends, sharing }) {
  lastSeen = Date.now();
  live.start(pool);
  banner("");
  $("forget").hidden = !hasKey();
  $("panels").classList.remove("stale");
  if (!backends.some((b) => b.state === "up")) link("degraded", "no backend is up");
  else if (sharing && sharing.state !== "fresh") link("degraded", "not shared");
  else link("live", "live");
  attr($("link"), "title", `last heard ${clock(lastSeen)}`);
  document.body.dataset.loaded = "yes";
}

let looking = false;
let again = false;

// look asks for everything once and shows it.
async function look() {
  if (locked) return;
  if (looking) {
    again = true;
    return;
  }
  looking = true;
  try {
    const config = choose((await call("GetRoutingConfig")).pools ?? []);
    const window = since > 0 ? { since: `${since}s` } : {};
    const [list, stats, report] = await Promise.all([
      call("ListBackends", { pool }), call("GetIndexStats", { pool }), call("GetHitReport", { pool, ...window }),
    ]);
    const hits = report.pools?.[0] ?? {};
    const all = {
      pool, routing: config, from: Date.parse(report.from), hits: hitsOf(hits.total), sharing: sharingOf(stats.sharing),
      backends: backendsOf(list.backends ?? [], stats.backends ?? [], hits.backends ?? []),
    };
    for (const panel of Object.values(panels)) panel.render(all);
    if (performance.now() - lastHistory >= historyEvery || lastHistory === 0) {
      history = (await call("GetHitHistory", { pool, since: `${since || 86400}s` })).steps ?? [];
      lastHistory = performance.now();
      panels.tokens.history(history);
    }
    if (!locked) heard(all);
  } catch (err) {
    trouble(err.code ? err : { code: "unknown", message: String(err.message ?? err) });
  }
  looking = false;
  if (again) {
    again = false;
    look();
  }
}

$("pool").addEventListener("change", () => {
  pool = $("pool").value;
  sessionStorage.setItem(poolName, pool);
  lastHistory = 0;
  look();
});
$("window").addEventListener("change", () => {
  since = Number($("window").value);
  lastHistory = 0;
  look();
});

// A page that nobody looks at asks nothing.
document.addEventListener("visibilitychange", () => {
  if (document.hidden) live.stop();
  else look();
});
setInterval(() => document.hidden || look(), lookEvery);
look();
