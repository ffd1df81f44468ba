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
 */
export function follow(options) {
  const stopping = new AbortController();
  const done = run(options, stopping.signal);
  return { stop: () => stopping.abort(), done };
}

async function run(options, stopped) {
  const { onLive = () => {} } = options;
  let seq = null; // The last one that was told; null: take the snapshot first.
  let waitMs = RETRY_MS_MIN;
  const moved = (next) => {
    seq = next;
    waitMs = RETRY_MS_MIN;
  };
  while (!stopped.aborted) {
    try {
      if (seq === null) {
        const snapshot = await (await call(options, "/api/state", {}, stopped)).json();
        moved(snapshot.seq);
        options.onSnapshot?.(snapshot);
      }
      await read(options, seq, moved, stopped);
      onLive(false);
    } catch (problem) {
      if (stopped.aborted) break;
      onLive(false, problem);
    }
    await sleep(waitMs * (0.5 + Math.random() / 2), stopped);
    waitMs = Math.min(waitMs * 2, RETRY_MS_MAX);
  }
}

/** One stream, from `seq` until it ends or is cut. */
async function read(options, seq, moved, stopped) {
  const silence = new AbortController();
  const signal = AbortSignal.any([stopped, silence.signal]);
  let timer = setTimeout(() => silence.abort(new Error("the line is silent")), SILENCE_MS);
  const headers = { accept: "text/event-stream", "last-event-id": String(seq) };
  try {
    const query = new URLSearchParams(pairs(options.filter ?? {}));
    const answer = await call(options, `/api/events?${query}`, headers, signal);
    options.onLive?.(true);
    for await (const block of blocks(answer.body)) {
      clearTimeout(timer);
      timer = setTimeout(() => silence.abort(new Error("the line is silent")), SILENCE_MS);
      if (block.event === "resync") {
        moved(null); // Some are missing: begin again with the snapshot.
        return;
      }
      if (block.data !== undefined && block.id !== undefined) {
        const event = JSON.parse(block.data);
        moved(event.seq);
        options.onEvent?.(event);
      } else if (block.id !== undefined) {
        moved(Number(block.id)); // A filtered stream moves on without a word.
      }
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
  if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
  return answer;
}

/** The blocks of an event stream: each the fields that it has. */
async function* blocks(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    while (true) {
      const { done, value } = await reader.read();
      if (done) return;
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
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener("abort", () => (clearTimeout(timer), resolve()), { once: true });
  });
}
