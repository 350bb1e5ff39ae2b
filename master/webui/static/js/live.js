// What a page shows is kept up to date here. Every page goes through `useLive`: today it asks again and again; with the
// socket `/api/v1/windlass/live` a topic's news will say when to ask, and no page changes.

import { useCallback, useEffect, useRef, useState } from "../vendor/hooks.js";
import { ApiError, AwayError } from "./api.js";
import { isSessionOver, say } from "./store.js";

const EVERY_MS = 3_000;
const HIDDEN_MS = 10_000;
const LONGEST_MS = 30_000;
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
 * @param {string} topic what news it waits for: `experiment 7`. Another topic begins with nothing.
 * @param {(signal: AbortSignal) => Promise<Data>} read
 * @param {{ everyMs?: number, isOver?: (data: Data) => boolean }} [options] what is over is not asked again
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
    const stop = new AbortController();
    let timer = 0;
    let failures = 0;
    let isShown = false;
    const look = async () => {
      let over = false;
      try {
        const data = await current.current.read(stop.signal);
        if (stop.signal.aborted) return;
        failures = 0;
        isShown = true;
        over = current.current.isOver(data);
        setState({ topic, data, error: null });
      } catch (error) {
        if (stop.signal.aborted) return;
        failures += 1;
        const problem = error instanceof Error ? error : new Error(String(error));
        const isLost = problem instanceof ApiError && LOST.has(problem.status);
        setState((old) => ({ topic, data: old.topic === topic && !isLost ? old.data : null, error: problem }));
        if (isShown && failures === 1 && !isLost && !(problem instanceof AwayError)) say(problem.message, "problem");
      }
      if (!over) timer = setTimeout(look, pause(failures, everyMs));
    };
    void look();
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  }, [topic, asked, everyMs, waits]);
  const refresh = useCallback(() => ask((count) => count + 1), []);
  const isCurrent = state.topic === topic;
  return { data: isCurrent ? state.data : null, error: isCurrent ? state.error : null, refresh };
}

/**
 * Tabs do not all come back in the same moment when a master does.
 *
 * @param {number} failures
 * @param {number} everyMs
 */
function pause(failures, everyMs) {
  const usual = document.hidden ? Math.max(everyMs, HIDDEN_MS) : everyMs;
  return failures ? Math.min(LONGEST_MS, usual * 2 ** failures) * (0.2 + 0.8 * Math.random()) : usual;
}
