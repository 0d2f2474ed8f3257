// Calls of AdminService over Connect, in JSON. Everything is asked of the origin that the
// page came from, relative to the page, so that it works below any path.

const service = new URL("warmroute.v1.AdminService/", document.baseURI);
const keyName = "warmroute-admin-key";
const callTimeout = 5000; // milliseconds

let key = sessionStorage.getItem(keyName) ?? "";
let ahead = 0; // what the router's clock is ahead of this browser's, in milliseconds

// A CallError is what a call ended with: a code of Connect, and words for people.
export class CallError extends Error {
  constructor(code, message) {
    super(message);
    this.code = code;
  }
}

// setKey shows a key from now on; an empty one forgets it. It is kept for this tab where keep
// says so, which is once the router has taken it.
export function setKey(value, keep = true) {
  key = value;
  if (value && keep) sessionStorage.setItem(keyName, value);
  else sessionStorage.removeItem(keyName);
}

// sendable reports whether a text can be a key: a header carries no other.
export const sendable = (text) => /^[\x21-\x7e]+$/.test(text);

export const hasKey = () => key !== "";

// now is the router's time, in milliseconds since 1970, to about a second.
export const now = () => Date.now() + ahead;

function headers(contentType) {
  const h = { "Content-Type": contentType, "Connect-Protocol-Version": "1" };
  if (key) h.Authorization = `Bearer ${key}`;
  return h;
}

// send posts a body. The error of a router that cannot be reached has the code unreachable.
async function send(method, contentType, body, signal) {
  let response;
  try {
    response = await fetch(new URL(method, service), {
      method: "POST", headers: headers(contentType), body, signal, cache: "no-store", credentials: "same-origin", redirect: "error",
    });
  } catch (err) {
    if (err.name === "AbortError") throw err;
    throw new CallError("unreachable", err.name === "TimeoutError" ? "The router does not answer." : "The router cannot be reached.");
  }
  const date = Date.parse(response.headers.get("Date") ?? "");
  if (date) {
    const measured = date + 500 - Date.now(); // the header has whole seconds
    ahead = Math.abs(measured) < 1500 ? 0 : measured;
  }
  return response;
}

// failure reads the error of an answer that is none.
async function failure(response) {
  let text = "";
  try {
    text = await response.text();
    const { code, message } = JSON.parse(text);
    if (code) return new CallError(code, message ?? code);
  } catch { /* it is not Connect that answered */ }
  if (response.status === 401) return new CallError("unauthenticated", "a key is wanted");
  const gateway = response.status === 502 || response.status === 503 || response.status === 504;
  return new CallError(gateway ? "unreachable" : "unknown", `The answer was HTTP ${response.status}.`);
}

// call makes one call and returns its answer.
export async function call(method, request = {}, timeout = callTimeout) {
  const response = await send(method, "application/json", JSON.stringify(request), AbortSignal.timeout(timeout));
  if (!response.ok) throw await failure(response);
  try {
    return await response.json();
  } catch {
    throw new CallError("unreachable", "The answer broke off.");
  }
}

// The flag of the envelope that ends a stream.
const endOfStream = 2;

// stream calls a method that answers with messages and hands each to heed, until it ends.
export async function stream(method, request, heed, signal) {
  const text = new TextEncoder().encode(JSON.stringify(request));
  const body = new Uint8Array(5 + text.length);
  new DataView(body.buffer).setUint32(1, text.length);
  body.set(text, 5);
  const response = await send(method, "application/connect+json", body, signal);
  if (!response.ok) throw await failure(response);
  const reader = response.body.getReader();
  let rest = new Uint8Array(0);
  for (;;) {
    let read;
    try {
      read = await reader.read();
    } catch (err) {
      if (signal.aborted) throw err;
      throw new CallError("unreachable", "The connection to the router broke.");
    }
    const { done, value } = read;
    if (done) return;
    const all = new Uint8Array(rest.length + value.length);
    all.set(rest);
    all.set(value, rest.length);
    rest = all;
    while (rest.length >= 5) {
      const size = new DataView(rest.buffer, rest.byteOffset).getUint32(1);
      if (rest.length < 5 + size) break;
      const message = JSON.parse(new TextDecoder().decode(rest.subarray(5, 5 + size)));
      const last = (rest[0] & endOfStream) !== 0;
      rest = rest.slice(5 + size);
      if (!last) {
        heed(message);
        continue;
      }
      if (message.error) throw new CallError(message.error.code, message.error.message ?? message.error.code);
      return;
    }
  }
}
