/**
 * One for all tabs of a browser, so that it holds one stream: a browser allows six connections to a
 * server, and a stream in every tab would use them up.
 */
import type { EventView } from "../client";
import { serverAddress } from "../origin";
import { Follower } from "./follow";
import type { Asked, Connection, Told } from "./model";
import { Soon } from "./soon";
import { World } from "./world";

const FLUSH_MS = 100;
const READ_MS = 300;
const RATES_MS = 2_000;

interface Tab {
  port: MessagePort;
  watched: Set<string>;
  events: EventView[];
}

const world = new World();
const tabs = new Set<Tab>();
let connection: Connection = "connecting";
let ahead_ms = 0;
let hasSnapshot = false;
let snapshotCount = 0;
let flushing: ReturnType<typeof setTimeout> | null = null;

const follower = new Follower(serverAddress(self.location.href), world, {
  onConnection(now) {
    connection = now;
    tellAll({ kind: "connection", connection });
  },
  onSnapshot(ahead) {
    ahead_ms = ahead;
    hasSnapshot = true;
    snapshotCount += 1;
    for (const reading of [keysSoon, lanesSoon]) reading.forget();
    tellAll({ kind: "snapshot", snapshot: world.snapshot(ahead_ms) });
  },
  onEvent(event) {
    for (const tab of tabs) {
      if (event.run_id !== null && tab.watched.has(event.run_id)) tab.events.push(event);
    }
    flushSoon();
    if (world.haveKeysChanged) keysSoon.ask();
    if (world.hasNewLane) lanesSoon.ask();
    world.haveKeysChanged = world.hasNewLane = false;
  },
});

/** Of two readings the later one counts, and a snapshot is one of everything. */
const keysSoon = new Soon(READ_MS, async () => {
  const before = snapshotCount;
  const keys = await follower.readKeys();
  if (before !== snapshotCount) return;
  world.keys = keys;
  tellAll({ kind: "keys", keys });
});

const lanesSoon = new Soon(READ_MS, async () => {
  world.takeNewLanes(await follower.readLanes());
  flushSoon();
});

function flushSoon(): void {
  flushing ??= setTimeout(flush, FLUSH_MS);
}

function flush(): void {
  flushing = null;
  const changes = world.changes();
  for (const tab of tabs) {
    if (changes === null && tab.events.length === 0) continue;
    const { seq } = world;
    const told = changes ?? { seq, runs: [], lanes: [], topics: [] };
    tab.port.postMessage({ kind: "patch", ...told, events: tab.events } satisfies Told);
    tab.events = [];
  }
}

function tellAll(told: Told): void {
  for (const tab of tabs) tab.port.postMessage(told);
}

function welcome(port: MessagePort): void {
  const tab: Tab = { port, watched: new Set(), events: [] };
  port.onmessage = ({ data }: MessageEvent<Asked>) => {
    switch (data.kind) {
      case "hello":
        tabs.add(tab);
        port.postMessage({ kind: "connection", connection } satisfies Told);
        if (hasSnapshot) {
          port.postMessage({ kind: "snapshot", snapshot: world.snapshot(ahead_ms) } satisfies Told);
        }
        break;
      case "bye":
        tabs.delete(tab);
        break;
      case "retry":
        follower.retry();
        break;
      case "cut":
        follower.cut();
        break;
      case "watch":
        tab.watched.add(data.run_id);
        break;
      case "unwatch":
        tab.watched.delete(data.run_id);
        break;
    }
  };
}

if ("onconnect" in self) {
  self.onconnect = ({ ports }: MessageEvent) => {
    const [port] = ports;
    if (port) welcome(port);
  };
} else {
  welcome(self as unknown as MessagePort); // A worker of one tab: some browsers have no shared ones.
}
setInterval(() => {
  world.forgetRates(Date.now() + ahead_ms);
  flushSoon();
}, RATES_MS);
void follower.run();
