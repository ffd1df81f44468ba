// Follows what happens on a headway server: a snapshot, then every event after it, once, in order.
// The protocol is in docs/events.md. No dependencies; it runs in browsers and in Node.
//
//   const following = follow({ onSnapshot: draw, onEvent: change });
//   following.stop();

const RETRY_MS_MIN = 500;
const RETRY_MS_MAX = 15_000;
// The server sends a ping at least every 30 s, the maximum of its `sse_ping_interval_s`.
const SILENCE_MS = 45_000;

/**
 * @param {object} options
 * @param {string} [options.base] where the server is; this page's own by default
 * @param {string} [options.token] sent as a Bearer token; a browser that has signed in needs none
 * @param {object} [options.filter] run_id, key, lane, type: only such events
 * @param {(snapshot: object) => void} [options.onSnapshot] forget what you know, and draw this
 * @param {(event: object) => void} [options.onEvent] one event, newer than all before
 * @param {(isLive: boolean, problem?: Error) => void} [options.onLive] the line is up, or cut
 * @param {(fault: unknown) => void} [options.onFault] what onSnapshot or onEvent has thrown; it is
 *   logged by default. What they know may be wrong then, so the snapshot follows.
 * @returns {{stop: () => void, done: Promise<void>}} `done` also when the server refuses for good
 *   (a token that is missing or wrong): `onLive(false, problem)` has told it, with a `status`.
 */
export function follow(options) {
  const stopping = new AbortController();
  const done = run(options, stopping.signal);
  return { stop: () => stopping.abort(), done };
}

/** The server has answered, and it was a no. */
class Refused extends Error {
  constructor(status) {
    super(`the server answered ${status}`);
    this.status = status;
  }

  get isFinal() {
    return this.status >= 400 && this.status < 500 && this.status !== 408 && this.status !== 429;
  }
}

async function run(options, stopped) {
  const { onLive = () => {}, onFault = (fault) => console.error(fault) } = options;
  // seq: the last event that was dispatched, or null if there is none. id: the seq with the mark of
  // that event, if it is known. epoch: the epoch of that seq.
  const place = { seq: null, id: undefined, epoch: undefined, waitMs: RETRY_MS_MIN };
  const tell = (handler, told) => {
    try {
      handler?.(told);
    } catch (fault) {
      place.seq = null;
      onFault(fault);
    }
  };
  while (!stopped.aborted) {
    try {
      if (place.seq === null) {
        const parts = [];
        for await (const part of heard(options, "/api/state", {}, stopped)) parts.push(part);
        const snapshot = JSON.parse(parts.join(""));
        ({ seq: place.seq, event_id: place.id, epoch: place.epoch } = snapshot);
        tell(options.onSnapshot, snapshot);
      }
      if (place.seq !== null) await read(options, place, tell, stopped);
      onLive(false);
    } catch (problem) {
      if (stopped.aborted) break;
      onLive(false, problem);
      if (problem instanceof Refused && problem.isFinal) break;
    }
    await sleep(place.waitMs * (0.5 + Math.random() / 2), stopped);
    place.waitMs = Math.min(place.waitMs * 2, RETRY_MS_MAX);
  }
}

/** One stream, from where we are until it ends, is cut, or something is missing. */
async function read(options, place, tell, stopped) {
  const filter = [...pairs(options.filter ?? {})];
  const query = new URLSearchParams(filter);
  if (place.epoch !== undefined) query.set("epoch", place.epoch);
  const headers = { accept: "text/event-stream", "last-event-id": String(place.id ?? place.seq) };
  const onAnswer = () => options.onLive?.(true);
  for await (const block of blocks(heard(options, `/api/events?${query}`, headers, stopped, onAnswer))) {
    place.waitMs = RETRY_MS_MIN;
    const seq = block.id === undefined ? place.seq : Number.parseInt(block.id, 10);
    const isGap = filter.length === 0 && seq > place.seq + 1;
    if (block.event === "resync" || isGap) place.seq = null; // Begin again with the snapshot.
    else if (seq > place.seq) {
      place.id = block.id;
      place.seq = seq; // Also without a word: a filtered stream moves on.
      if (block.data !== undefined) tell(options.onEvent, JSON.parse(block.data));
    }
    if (place.seq === null || stopped.aborted) return;
  }
}

/** What the server answers, part by part; an error as soon as it is silent for too long. */
async function* heard(options, path, headers, stopped, onAnswer = () => {}) {
  const line = new AbortController();
  const cut = () => line.abort(stopped.reason);
  const inTime = async (waiting) => {
    const timer = setTimeout(() => line.abort(new Error("the line is silent")), SILENCE_MS);
    return await waiting.finally(() => clearTimeout(timer));
  };
  stopped.addEventListener("abort", cut);
  if (stopped.aborted) cut();
  try {
    const answer = await inTime(call(options, path, headers, line.signal));
    onAnswer();
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    while (true) {
      const { done, value } = await inTime(reader.read());
      if (done) return;
      yield value;
    }
  } finally {
    stopped.removeEventListener("abort", cut);
    line.abort(); // Whoever has heard enough leaves the line.
  }
}

async function call(options, path, headers, signal) {
  const token = options.token ? { authorization: `Bearer ${options.token}` } : {};
  const answer = await fetch(`${options.base ?? ""}${path}`, {
    headers: { ...headers, ...token },
    cache: "no-store",
    signal,
  });
  if (!answer.ok) throw new Refused(answer.status);
  return answer;
}

/** The blocks of an event stream: each the fields that it has. */
async function* blocks(parts) {
  let rest = "";
  for await (const part of parts) {
    const found = (rest + part).split("\n\n");
    rest = found.pop();
    for (const one of found) yield fields(one);
  }
}

function fields(part) {
  const found = {};
  for (const line of part.split("\n")) {
    const colon = line.indexOf(": ");
    if (colon > 0) found[line.slice(0, colon)] = line.slice(colon + 2);
  }
  return found;
}

function* pairs(filter) {
  for (const [name, value] of Object.entries(filter)) {
    for (const one of Array.isArray(value) ? value : [value]) yield [name, one];
  }
}

function sleep(ms, signal) {
  if (signal.aborted) return Promise.resolve();
  return new Promise((resolve) => {
    const end = () => {
      clearTimeout(timer);
      signal.removeEventListener("abort", end);
      resolve();
    };
    const timer = setTimeout(end, ms);
    signal.addEventListener("abort", end);
  });
}
