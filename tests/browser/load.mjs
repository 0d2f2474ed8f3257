// Conversations that share their beginnings, sent to a router in a closed loop.

const vocabulary = "amber basin cedar delta ember fjord grove harbor island juniper kelp lagoon meadow nectar orchid pine quarry river stone tundra".split(" ");

// prose is some text that is always the same for a seed.
function prose(seed, words) {
  let x = (seed * 2654435761) >>> 0;
  const out = [];
  for (let i = 0; i < words; i++) {
    x = (Math.imul(x, 1664525) + 1013904223) >>> 0;
    out.push(vocabulary[x % vocabulary.length] + (x >>> 27));
  }
  return out.join(" ");
}

// A Load keeps as many conversations going as there are users, until it is stopped.
export class Load {
  constructor(url, model, users) {
    this.url = url;
    this.model = model;
    this.users = users;
    this.answered = 0;
    this.failed = 0;
    this.stopped = new AbortController();
  }

  start() {
    this.loops = Array.from({ length: this.users }, (_, i) => this.user(i));
  }

  // stop waits until nothing is in flight.
  async stop() {
    this.stopped.abort();
    await Promise.all(this.loops);
  }

  async user(i) {
    let turn = i;
    while (!this.stopped.signal.aborted) {
      const document = turn % 12;
      const messages = [{ role: "system", content: prose(document, 500) }];
      for (let n = 0; n < 4 && !this.stopped.signal.aborted; n++) {
        messages.push({ role: "user", content: `Question ${turn} ${n}: ${prose(1000 * turn + n, 30)}` });
        messages.push({ role: "assistant", content: await this.ask(messages) });
      }
      turn += this.users;
    }
  }

  async ask(messages) {
    try {
      const response = await fetch(`${this.url}/v1/chat/completions`, {
        method: "POST", headers: { "Content-Type": "application/json" },
        body: JSON.stringify({ model: this.model, messages, stream: true, max_tokens: 40 }),
      });
      await response.text();
      if (response.ok) this.answered++;
      else this.failed++;
    } catch {
      this.failed++;
    }
    await new Promise((done) => setTimeout(done, 30));
    return prose(messages.length, 20);
  }
}
