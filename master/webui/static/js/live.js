// What a page shows is kept up to date here. Every page goes through `useLive`: it asks when the master says on the
// tab's socket that there is news, and again and again, as before there was one, where none comes.

import { useCallback, useEffect, useRef, useState } from "../vendor/hooks.js";
import { ApiError, AwayError } from "./api.js";
import { follow, isFollowed } from "./socket.js";
import { isSessionOver, say } from "./store.js";

const EVERY_MS = 3_000;
const HIDDEN_MS = 10_000;
const LONGEST_MS = 30_000;
/** While news come. Ages and estimates change without any. */
const SELDOM_MS = 60_000;
/** However much news there is. */
const BUSY_MS = 2_000;
/** A read that takes long is not made more often than this share of the time. */
const BUSY_SHARE = 0.2;
/** Whoever comes back to a tab sees nothing older. */
const FRESH_MS = 5_000;
/** It is gone, or one may not see it any more. */
const LOST = new Set([403, 404]);

/**
 * @template Data
 * @typedef {object} Live
 * @property {Data | null} data the newest answer, also while the master is away; nothing once it is gone or forbidden
 * @property {Error | null} error of the last attempt; it is tried again, ever more seldom
 * @property {() => void} refresh asks at once, as after a change
 */

/**
 * @template Data
 * @param {string} topic what news it waits for, and after a colon what else it depends on: `experiment 7`,
 *   `experiment 7 + queue: its trials by loss`. Another one begins with nothing. The master's topics are in
 *   `master/live/topics.py`.
 * @param {(signal: AbortSignal) => Promise<Data>} read
 * @param {{ everyMs?: number, isOver?: (data: Data) => boolean }} [options] `everyMs`: how often it asks where no news
 *   comes; what is over is not asked for again without news
 * @returns {Live<Data>}
 */
export function useLive(topic, read, { everyMs = EVERY_MS, isOver = () => false } = {}) {
  const [state, setState] = useState(
    /** @returns {{ topic: string, data: Data | null, error: Error | null }} */ () => ({
      topic,
      data: null,
      error: null,
    }),
  );
  const current = useRef({ read, isOver });
  current.current = { read, isOver };
  const [asked, ask] = useState(0);
  const waits = isSessionOver.value;
  useEffect(() => {
    if (waits) return;
    const names = (topic.split(":", 1)[0] ?? "").split(" + ");
    const stop = new AbortController();
    let timer = 0;
    let failures = 0;
    let isShown = false;
    let isReading = false;
    let hasNews = false;
    let isDone = false;
    let begun = 0;
    let busyUntil = 0;
    const schedule = () => {
      clearTimeout(timer);
      if (isReading || stop.signal.aborted || (isDone && !hasNews)) return;
      const calm = pause(failures, names.every(isFollowed) ? Math.max(everyMs, SELDOM_MS) : everyMs);
      timer = setTimeout(look, hasNews ? Math.max(0, busyUntil - performance.now()) : calm);
    };
    const look = async () => {
      isReading = true;
      hasNews = false;
      begun = performance.now();
      try {
        const data = await current.current.read(stop.signal);
        if (stop.signal.aborted) return;
        failures = 0;
        isShown = true;
        isDone = current.current.isOver(data);
        setState({ topic, data, error: null });
      } catch (error) {
        if (stop.signal.aborted) return;
        failures += 1;
        const problem = error instanceof Error ? error : new Error(String(error));
        const isLost = problem instanceof ApiError && LOST.has(problem.status);
        setState((old) => ({ topic, data: old.topic === topic && !isLost ? old.data : null, error: problem }));
        if (isShown && failures === 1 && !isLost && !(problem instanceof AwayError)) say(problem.message, "problem");
      }
      isReading = false;
      busyUntil = begun + Math.max(BUSY_MS, (performance.now() - begun) / BUSY_SHARE);
      schedule();
    };
    const hear = (/** @type {boolean} */ isNews) => {
      hasNews ||= isNews;
      schedule();
    };
    const come = () => {
      if (!document.hidden && performance.now() - begun > FRESH_MS) hear(true);
    };
    const ends = names.map((name) => follow(name, hear));
    document.addEventListener("visibilitychange", come);
    void look();
    return () => {
      stop.abort();
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", come);
      for (const end of ends) end();
    };
  }, [topic, asked, everyMs, waits]);
  const refresh = useCallback(() => ask((count) => count + 1), []);
  const isCurrent = state.topic === topic;
  return { data: isCurrent ? state.data : null, error: isCurrent ? state.error : null, refresh };
}

/**
 * Until one asks again. Tabs do not all come back in the same moment when a master does.
 *
 * @param {number} failures
 * @param {number} everyMs
 */
export function pause(failures, everyMs) {
  const usual = document.hidden ? Math.max(everyMs, HIDDEN_MS) : everyMs;
  return failures ? Math.min(LONGEST_MS, usual * 2 ** failures) * (0.2 + 0.8 * Math.random()) : usual;
}
