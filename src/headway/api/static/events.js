// Follows what happens on a headway server: a snapshot, then every event after it, once, in order.
// The protocol is in docs/events.md. No dependencies; it runs in browsers and in Node.
//
//   const following = follow({ onSnapshot: draw, onEvent: change });
//   following.stop();

const RETRY_MS_MIN = 500;
const RETRY_MS_MAX = 15_000;
// The server says something every 15 s; a line that is silent for longer is dead.
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
  const place = { seq: null, waitMs: RETRY_MS_MIN }; // seq: the last that was told; null: none yet.
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
        const patience = AbortSignal.any([stopped, AbortSignal.timeout(SILENCE_MS)]);
        const snapshot = await (await call(options, "/api/state", {}, patience)).json();
        place.seq = snapshot.seq;
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
  const silence = new AbortController();
  const hush = () => silence.abort(new Error("the line is silent"));
  let timer = setTimeout(hush, SILENCE_MS);
  const heard = () => {
    place.waitMs = RETRY_MS_MIN;
    clearTimeout(timer);
    timer = setTimeout(hush, SILENCE_MS);
  };
  const filter = [...pairs(options.filter ?? {})];
  const headers = { accept: "text/event-stream", "last-event-id": String(place.seq) };
  try {
    const signal = AbortSignal.any([stopped, silence.signal]);
    const answer = await call(options, `/api/events?${new URLSearchParams(filter)}`, headers, signal);
    options.onLive?.(true);
    for await (const block of blocks(answer.body, heard)) {
      const seq = Number(block.id ?? place.seq);
      const isGap = filter.length === 0 && seq > place.seq + 1;
      if (block.event === "resync" || isGap) place.seq = null; // Begin again with the snapshot.
      else if (seq > place.seq) {
        place.seq = seq; // Also without a word: a filtered stream moves on.
        if (block.data !== undefined) tell(options.onEvent, JSON.parse(block.data));
      }
      if (place.seq === null || stopped.aborted) return;
    }
  } finally {
    clearTimeout(timer);
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
async function* blocks(body, heard) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    while (true) {
      const { done, value } = await reader.read();
      if (done) return;
      heard();
      const parts = (rest + value).split("\n\n");
      rest = parts.pop();
      for (const part of parts) yield fields(part);
    }
  } finally {
    await reader.cancel().catch(() => {});
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
