// How numbers, times and settings are written.

const whole = new Intl.NumberFormat("en-US");

// amount is a count in about three digits.
export function amount(n) {
  if (!Number.isFinite(n)) return "–";
  const units = [[1e9, "G"], [1e6, "M"], [1e3, "k"]];
  for (const [size, unit] of units) {
    if (Math.abs(n) >= size * 0.9995) {
      const scaled = n / size;
      return scaled.toFixed(Math.abs(scaled) >= 99.95 ? 0 : 1) + unit;
    }
  }
  return String(Math.round(n));
}

// exact is a count in full.
export const exact = (n) => whole.format(n);

// percent is a part of a whole, – where there is none.
export function percent(part, of = 1) {
  if (!(of > 0) || part === null || part === undefined) return "–";
  return `${((100 * part) / of).toFixed(1)} %`;
}

// points is a difference of two percentages.
export function points(difference) {
  const n = 100 * difference;
  return `${n < 0 ? "−" : "+"}${Math.abs(n).toFixed(1)}`;
}

// seconds is a duration.
export function seconds(s) {
  if (s === null || s === undefined || !Number.isFinite(s)) return "–";
  if (s < 0.0995) return `${Math.round(1000 * s)} ms`;
  if (s < 9.995) return `${s.toFixed(2)} s`;
  if (s < 99.5) return `${s.toFixed(0)} s`;
  if (s < 5970) return `${Math.round(s / 60)} min`;
  if (s < 129600) return `${Math.round(s / 3600)} h`;
  return `${Math.round(s / 86400)} d`;
}

// parseDuration reads a duration of protobuf's JSON, such as "1.5s", into seconds.
export const parseDuration = (text) => (text ? Number(text.slice(0, -1)) : null);

// clock is a moment as a time of day.
export const clock = (ms) => new Date(ms).toLocaleTimeString("en-GB");

// count reads a number of protobuf's JSON, which writes 64 bits as text and leaves out 0.
export const count = (n) => (n === undefined || n === null ? 0 : Number(n));

// words is a name of the interface, such as longest_match, for people.
export const words = (name) => name.replaceAll("_", " ");

// settingText is the value of a setting.
export function settingText(name, value) {
  if (name === "prefix_length") return Number(value) === 0 ? "default" : exact(Number(value));
  return String(value);
}

// sentence is what the router says in words, as a sentence of its own.
export const sentence = (text) => (text ? `${text[0].toUpperCase()}${text.slice(1)}${/[.!?]$/.test(text) ? "" : "."}` : "");

// hitsOf reads the counts of protobuf's JSON.
export function hitsOf(h = {}) {
  return {
    prompt: count(h.promptTokens), available: count(h.availableTokens), captured: count(h.capturedTokens),
    predicted: count(h.predictedTokens), reported: count(h.reportedPromptTokens), delivered: count(h.deliveredTokens),
    noReuse: count(h.lostToNoReuseTokens), overflow: count(h.lostToOverflowTokens), loadChoice: count(h.lostToLoadChoiceTokens),
    staleIndex: count(h.lostToStaleIndexTokens), unreported: count(h.unreportedTokens),
  };
}
