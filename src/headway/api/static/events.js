// Follows the events of a headway server: a snapshot, then every event after it, once, in order.
// docs/events.md describes the protocol. No dependencies. Runs in browsers and in Node.
//
//   const following = follow({ onSnapshot: draw, onEvent: change });
//   following.stop();

const RETRY_MS_MIN = 500;
const RETRY_MS_MAX = 15_000;
// The server sends a ping at least every 30 s, the maximum of its `sse_ping_interval_s`.
const SILENCE_MS = 45_000;

/**
 * @param {object} options
 * @param {string} [options.base] URL of the server. Default: the origin of this page
 * @param {string} [options.token] sent as a Bearer token. A browser that has signed in needs none
 * @param {object} [options.filter] run_id, key, lane, type: receive only matching events
 * @param {(snapshot: object) => void} [options.onSnapshot] replace all state by this
 * @param {(event: object) => void} [options.onEvent] one event, newer than all before it
 * @param {(isLive: boolean, problem?: Error) => void} [options.onLive] connected, or disconnected
 * @param {(error: unknown) => void} [options.onFault] an error thrown by onSnapshot or onEvent;
 *   logged by default. The state of the handlers may be wrong then, so a new snapshot follows.
 * @returns {{stop: () => void, done: Promise<void>}} `done` also resolves when the server refuses
 *   permanently (a missing or wrong token), after `onLive(false, problem)` with `problem.status`.
 */
export function follow(options) {
  const stopping = new AbortController();
  const done = run(options, stopping.signal);
  return { stop: () => stopping.abort(), done };
}

/** An error response of the server. */
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
  const { onLive = () => {}, onFault = (error) => console.error(error) } = options;
  // seq: the last event that was dispatched, or null if there is none. id: the seq with the mark of
  // that event, if it is known. epoch: the epoch of that seq.
  const position = { seq: null, id: undefined, epoch: undefined, waitMs: RETRY_MS_MIN };
  const dispatch = (handler, value) => {
    try {
      handler?.(value);
    } catch (error) {
      position.seq = null;
      onFault(error);
    }
  };
  while (!stopped.aborted) {
    try {
      if (position.seq === null) {
        const parts = [];
        for await (const part of receive(options, "/api/state", {}, stopped)) parts.push(part);
        const snapshot = JSON.parse(parts.join(""));
        ({ seq: position.seq, event_id: position.id, epoch: position.epoch } = snapshot);
        dispatch(options.onSnapshot, snapshot);
      }
      if (position.seq !== null) await read(options, position, dispatch, stopped);
      onLive(false);
    } catch (problem) {
      if (stopped.aborted) break;
      onLive(false, problem);
      if (problem instanceof Refused && problem.isFinal) break;
    }
    await sleep(position.waitMs * (0.5 + Math.random() / 2), stopped);
    position.waitMs = Math.min(position.waitMs * 2, RETRY_MS_MAX);
  }
}

/** Read one stream, from `position` until it ends, the connection fails, or events are missing. */
async function read(options, position, dispatch, stopped) {
  const filter = [...pairs(options.filter ?? {})];
  const query = new URLSearchParams(filter);
  if (position.epoch !== undefined) query.set("epoch", position.epoch);
  const headers = { accept: "text/event-stream", "last-event-id": String(position.id ?? position.seq) };
  const onResponse = () => options.onLive?.(true);
  for await (const block of blocks(receive(options, `/api/events?${query}`, headers, stopped, onResponse))) {
    position.waitMs = RETRY_MS_MIN;
    const seq = block.id === undefined ? position.seq : Number.parseInt(block.id, 10);
    const isGap = filter.length === 0 && seq > position.seq + 1;
    if (block.event === "resync" || isGap) position.seq = null; // Load a new snapshot.
    else if (seq > position.seq) {
      position.id = block.id;
      position.seq = seq; // Also without data: a filtered stream advances too.
      if (block.data !== undefined) dispatch(options.onEvent, JSON.parse(block.data));
    }
    if (position.seq === null || stopped.aborted) return;
  }
}

/** Yield the response in parts. Throw if no data arrives for SILENCE_MS. */
async function* receive(options, path, headers, stopped, onResponse = () => {}) {
  const connection = new AbortController();
  const abort = () => connection.abort(stopped.reason);
  const inTime = async (pending) => {
    const silence = new Error(`no data for ${SILENCE_MS / 1000} s`);
    const timer = setTimeout(() => connection.abort(silence), SILENCE_MS);
    return await pending.finally(() => clearTimeout(timer));
  };
  stopped.addEventListener("abort", abort);
  if (stopped.aborted) abort();
  try {
    const response = await inTime(call(options, path, headers, connection.signal));
    onResponse();
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    while (true) {
      const { done, value } = await inTime(reader.read());
      if (done) return;
      yield value;
    }
  } finally {
    stopped.removeEventListener("abort", abort);
    connection.abort(); // Close the connection if the caller stops early.
  }
}

async function call(options, path, headers, signal) {
  const token = options.token ? { authorization: `Bearer ${options.token}` } : {};
  const response = await fetch(`${options.base ?? ""}${path}`, {
    headers: { ...headers, ...token },
    cache: "no-store",
    signal,
  });
  if (!response.ok) throw new Refused(response.status);
  return response;
}

/** Yield the blocks of an event stream, each as an object of its fields. */
async function* blocks(parts) {
  let rest = "";
  for await (const part of parts) {
    const complete = (rest + part).split("\n\n");
    rest = complete.pop();
    for (const block of complete) yield fields(block);
  }
}

function fields(block) {
  const values = {};
  for (const line of block.split("\n")) {
    const colon = line.indexOf(": ");
    if (colon > 0) values[line.slice(0, colon)] = line.slice(colon + 2);
  }
  return values;
}

function* pairs(filter) {
  for (const [name, value] of Object.entries(filter)) {
    for (const item of Array.isArray(value) ? value : [value]) yield [name, item];
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
