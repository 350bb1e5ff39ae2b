// The lines of a log that are here: windows of the master, from the end back, and what comes meanwhile.

import { useEffect, useRef, useState } from "../../vendor/hooks.js";
import { int64 } from "../api.js";

export const WINDOW = 500;
const MOST_LINES = 20_000;
const EVERY_MS = 2_000;

/** @typedef {import("../store.js").Schemas["TaskLog"]} Line */
/** @typedef {{ limit: number, descending: boolean, before?: string, after?: string, signal: AbortSignal }} Asked */
/** @typedef {(asked: Asked) => Promise<Line[]>} Read */

/**
 * Each once, in order.
 *
 * @param {Line[]} old
 * @param {Line[]} more
 */
export function merged(old, more) {
  const ids = new Set(old.map((line) => line.id));
  const all = [...old, ...more.filter((line) => !ids.has(line.id))];
  return all.sort((a, b) => (int64(a.id) < int64(b.id) ? -1 : 1));
}

/** Lines of the same moment are asked for again. @param {string} moment @param {number} ms */
function shifted(moment, ms) {
  return new Date(new Date(moment).getTime() + ms).toISOString();
}

/**
 * @param {string} topic another one begins anew
 * @param {Read} read
 * @param {boolean} follows
 */
export function useLogLines(topic, read, follows) {
  const [state, setState] = useState({
    topic,
    lines: /** @type {Line[]} */ ([]),
    isComplete: false,
    isHere: false,
    error: /** @type {Error | null} */ (null),
  });
  const latest = useRef({ state, read });
  latest.current = { state, read };
  const isCurrent = state.topic === topic;
  const lines = isCurrent ? state.lines : [];
  useEffect(() => {
    const stop = new AbortController();
    let timer = 0;
    const look = async () => {
      const { state: now, read: ask } = latest.current;
      const newest = now.topic === topic ? now.lines.at(-1) : undefined;
      try {
        const more = newest
          ? await ask({
              limit: MOST_LINES,
              descending: false,
              after: shifted(newest.timestamp, -1),
              signal: stop.signal,
            })
          : (await ask({ limit: WINDOW, descending: true, signal: stop.signal })).reverse();
        if (stop.signal.aborted) return;
        setState((old) => {
          const mine = old.topic === topic ? old : { lines: [], isComplete: false };
          const all = merged(mine.lines, more);
          const isCut = all.length > MOST_LINES;
          const isComplete = newest ? mine.isComplete && !isCut : more.length < WINDOW;
          return { topic, lines: all.slice(-MOST_LINES), isComplete, isHere: true, error: null };
        });
      } catch (error) {
        if (stop.signal.aborted) return;
        const problem = error instanceof Error ? error : new Error(String(error));
        setState((old) => ({
          ...(old.topic === topic ? old : { topic, lines: [], isComplete: false, isHere: false }),
          error: problem,
        }));
      }
      if (follows) timer = setTimeout(look, EVERY_MS);
    };
    void look();
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  }, [topic, follows]);
  /** The window before the first line. @returns {Promise<number>} how many lines came */
  const older = async () => {
    const first = lines[0];
    if (!first || state.isComplete) return 0;
    const asked = {
      limit: WINDOW,
      descending: true,
      before: shifted(first.timestamp, 1),
      signal: new AbortController().signal,
    };
    let more;
    try {
      more = (await read(asked)).reverse();
    } catch (error) {
      const problem = error instanceof Error ? error : new Error(String(error));
      setState((old) => (old.topic === topic ? { ...old, error: problem } : old));
      return 0;
    }
    const all = merged(lines, more);
    const added = all.length - lines.length;
    setState((old) =>
      old.topic === topic
        ? { ...old, lines: merged(old.lines, more), isComplete: more.length < WINDOW || !added }
        : old,
    );
    return added;
  };
  return {
    lines,
    older,
    isComplete: isCurrent && state.isComplete,
    isHere: isCurrent && state.isHere,
    error: isCurrent ? state.error : null,
  };
}
