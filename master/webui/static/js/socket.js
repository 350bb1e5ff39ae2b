// The one socket of a tab: the master says on it that there is news of a topic, and whoever shows that asks again.

import { signal } from "../vendor/signals.js";
import { ROOT } from "./router.js";
import { isSessionOver, me } from "./store.js";

const PATH = "/api/v1/windlass/live";
/** The master sends a beat each 20 s: without a word for longer the connection is dead. */
const SILENT_MS = 50_000;
const SHORTEST_MS = 200;
const LONGEST_MS = 30_000;
/** Pages that follow each other want much the same. */
const LINGER_MS = 1_000;
const SESSION_OVER = 4001;
const TOO_SLOW = 4008;

/** @typedef {(isNews: boolean) => void} Listener true: ask now; false: no news come any more, ask again and again */
/** @typedef {{ number: number, seq: number, listeners: Set<Listener> }} Followed */

/** The version of a master that was updated since this page was loaded. */
export const newVersion = signal("");

/** @type {Map<string, Followed>} */
const topics = new Map();
/** @type {WebSocket | null} */
let socket = null;
let isOpen = false;
let last = 0;
let failures = 0;
let count = 0;
let retry = 0;

/**
 * @param {string} topic as `master/live/topics.py` lists them
 * @param {Listener} listener called with true when what it shows may have changed
 * @returns {() => void} ends it
 */
export function follow(topic, listener) {
  const followed = topics.get(topic) ?? begin(topic);
  followed.listeners.add(listener);
  connect();
  return () => {
    followed.listeners.delete(listener);
    setTimeout(() => {
      if (followed.listeners.size || topics.get(topic) !== followed) return;
      topics.delete(topic);
      send({ unsubscribe: followed.number });
    }, LINGER_MS);
  };
}

/** Whether news of it come. Else one has to ask again and again. @param {string} topic */
export function isFollowed(topic) {
  return isOpen && (topics.get(topic)?.seq ?? -1) >= 0;
}

/** @param {string} topic */
function begin(topic) {
  const followed = { number: (count += 1), seq: -1, listeners: new Set() };
  topics.set(topic, followed);
  send({ subscribe: { id: followed.number, topic } });
  return followed;
}

/** @param {object} message */
function send(message) {
  if (isOpen) socket?.send(JSON.stringify(message));
}

function connect() {
  if (socket || retry || !me.value || isSessionOver.value || !topics.size) return;
  const url = new URL(`${ROOT}${PATH.slice(1)}`, location.href);
  url.protocol = url.protocol.replace("http", "ws");
  const opened = (socket = new WebSocket(url));
  last = Date.now();
  opened.onopen = () => {
    isOpen = true;
    for (const [topic, { number }] of topics) send({ subscribe: { id: number, topic } });
    if (document.hidden) send({ visible: false });
  };
  opened.onmessage = ({ data }) => take(JSON.parse(data));
  opened.onclose = ({ code }) => socket === opened && lose(code);
}

/** Tabs do not all come back in the same moment when a master does. @param {number} code */
function lose(code) {
  socket = null;
  isOpen = false;
  const most = code === TOO_SLOW ? LONGEST_MS : Math.min(LONGEST_MS, 1_000 * 2 ** failures);
  failures += 1;
  retry = setTimeout(again, SHORTEST_MS + most * Math.random());
  for (const followed of topics.values()) {
    followed.seq = -1;
    tell(followed, code === SESSION_OVER);
  }
}

function again() {
  clearTimeout(retry);
  retry = 0;
  connect();
}

/** @param {Record<string, any>} message */
function take({ hello, news, id, error }) {
  last = Date.now();
  if (hello) {
    failures = 0;
    const mine = document.documentElement.dataset.version;
    newVersion.value = hello.version === mine ? "" : hello.version;
  } else if (news) {
    for (const followed of topics.values()) {
      const seq = news[followed.number];
      // The first is 0: what was read before may be old. One that comes twice says nothing new.
      if (seq === undefined || seq <= followed.seq) continue;
      followed.seq = seq;
      tell(followed, true);
    }
  } else if (error) {
    for (const followed of topics.values()) if (followed.number === id) followed.seq = -1;
  } else {
    send({ alive: true });
  }
}

/** @param {Followed} followed @param {boolean} isNews */
function tell(followed, isNews) {
  for (const listener of [...followed.listeners]) listener(isNews);
}

/** A machine that slept has a socket that only looks as if it were there. */
function check() {
  if (socket && Date.now() - last > SILENT_MS) {
    const dead = socket;
    lose(0);
    dead.close();
  }
}

setInterval(check, SILENT_MS / 5);
document.addEventListener("visibilitychange", () => {
  send({ visible: !document.hidden });
  if (document.hidden) return;
  check();
  if (retry) again();
});
window.addEventListener("online", () => retry && again());
me.subscribe(connect);
isSessionOver.subscribe(connect);
