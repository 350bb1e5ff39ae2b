// The lines of a log that are here: one part without gaps, which grows at either end, and what comes meanwhile.

import { useCallback, useEffect, useRef, useState } from "../../vendor/hooks.js";
import { int64 } from "../api.js";

export const WINDOW = 500;
/** Of what is here; the far end goes, so that a day of following takes no more memory than a minute. */
export const MOST_LINES = 5_000;
const MOST_CHARACTERS = 10_000_000;
const EVERY_MS = 2_000;

/** @typedef {import("../store.js").Schemas["TaskLog"] & { number?: number }} Line */
/** @typedef {{ line?: number, time?: string, id?: string, since?: string }} Place one of them; none: the end */
/** @typedef {Place & { before: number, after: number, signal: AbortSignal }} Asked */
/** @typedef {{ lines: Line[], total: number, newestId: string }} Part */
/** @typedef {(asked: Asked) => Promise<Part>} Read */
/** @typedef {{ lines: Line[], isStart: boolean, isEnd: boolean, total: number, newestId: string }} Here */

/** Each once, by time, then as they were stored. @param {Line[]} old @param {Line[]} more */
export function merged(old, more) {
  const ids = new Set(old.map((line) => line.id));
  const added = more.filter((line) => !ids.has(line.id));
  const all = [...old, ...added];
  const last = old.at(-1);
  return !last || added.every((line) => isBefore(last, line)) ? all : all.sort((a, b) => (isBefore(a, b) ? -1 : 1));
}

/** Moments have the same number of digits. @param {Line} a @param {Line} b */
function isBefore(a, b) {
  return a.timestamp === b.timestamp ? int64(a.id) < int64(b.id) : a.timestamp < b.timestamp;
}

/** How many may stay, from one end on. @param {Line[]} lines @param {boolean} fromEnd */
export function keepable(lines, fromEnd) {
  let [count, characters] = [0, 0];
  for (const most = Math.min(lines.length, MOST_LINES); count < most; count += 1) {
    characters += (fromEnd ? lines.at(-1 - count) : lines[count])?.log.length ?? 0;
    if (characters > MOST_CHARACTERS && count) break;
  }
  return count;
}

/** @param {Here} here @param {Part} part @param {boolean} isOlder @returns {Here} */
export function grown(here, part, isOlder) {
  const start = here.lines[0];
  // A line that came late may belong before what is here: it is read when somebody goes there.
  const isIn = (/** @type {Line} */ line) => isOlder || here.isStart || !start || !isBefore(line, start);
  const all = merged(here.lines, part.lines.filter(isIn));
  const kept = keepable(all, !isOlder);
  const isCut = kept < all.length;
  const { total, newestId } = part;
  return isOlder
    ? { ...here, total, lines: all.slice(0, kept), isStart: part.lines.length <= WINDOW, isEnd: here.isEnd && !isCut }
    : { total, newestId, lines: all.slice(all.length - kept), isStart: here.isStart && !isCut, isEnd: here.isEnd };
}

/**
 * @param {string} topic another one begins anew
 * @param {Read} read
 * @param {{ place: Place | null, follows: boolean }} options `place`: what is shown first; null: the end
 */
export function useLogLines(topic, read, { place, follows }) {
  const wanted = `${topic} ${JSON.stringify(place)}`;
  const [state, setState] = useState({
    wanted,
    here: /** @type {Here | null} */ (null),
    error: /** @type {Error | null} */ (null),
  });
  const isCurrent = state.wanted === wanted;
  const here = isCurrent ? state.here : null;
  const now = useRef({ here, read, isBusy: false });
  now.current.here = here;
  now.current.read = read;
  const [anew, begin] = useState(0);
  /** @param {Asked} asked @param {(here: Here | null, part: Part) => Here} change */
  const ask = async (asked, change) => {
    now.current.isBusy = true;
    try {
      const part = await now.current.read(asked);
      if (asked.signal.aborted) return;
      setState((old) => {
        const mine = old.wanted === wanted ? old.here : null;
        return { wanted, here: change(mine, part), error: null };
      });
    } catch (error) {
      if (asked.signal.aborted) return;
      const problem = error instanceof Error ? error : new Error(String(error));
      setState((old) => ({ wanted, here: old.wanted === wanted ? old.here : null, error: problem }));
    } finally {
      now.current.isBusy = false;
    }
  };
  const stop = useRef(new AbortController());
  useEffect(() => {
    stop.current = new AbortController();
    const { signal } = stop.current;
    const [before, after] = [WINDOW, place ? WINDOW : 0];
    void ask({ ...place, before, after, signal }, (_, part) => first(part, place !== null));
    return () => stop.current.abort();
  }, [wanted, anew]);
  const isAtEnd = here?.isEnd ?? false;
  useEffect(() => {
    if (!follows || !isAtEnd) return;
    const { signal } = stop.current;
    const timer = setInterval(() => {
      const since = now.current.here?.newestId;
      if (now.current.isBusy || since === undefined || signal.aborted) return;
      void ask({ since, before: 0, after: WINDOW, signal }, (old, part) =>
        // More than a window has come: it is the end now, and what is between is not here.
        old && part.lines.length < WINDOW ? grown(old, part, false) : first(part, false),
      );
    }, EVERY_MS);
    return () => clearInterval(timer);
  }, [wanted, anew, follows, isAtEnd]);
  const older = () => {
    const id = here?.lines[0]?.id;
    if (!id || here.isStart || now.current.isBusy) return;
    const { signal } = stop.current;
    void ask({ id, before: WINDOW, after: 0, signal }, (old, part) => grown(old ?? here, part, true));
  };
  const newer = () => {
    const id = here?.lines.at(-1)?.id;
    if (!id || here.isEnd || now.current.isBusy) return;
    const { signal } = stop.current;
    void ask({ id, before: 0, after: WINDOW, signal }, (old, part) => {
      const more = grown(old ?? here, part, false);
      return { ...more, isEnd: part.lines.length <= WINDOW };
    });
  };
  return {
    here,
    older,
    newer,
    toEnd: useCallback(() => begin((count) => count + 1), []),
    error: isCurrent ? state.error : null,
  };
}

/** @param {Part} part @param {boolean} isInside @returns {Here} */
function first({ lines, total, newestId }, isInside) {
  const isWhole = lines.length < WINDOW;
  return { lines, total, newestId, isStart: isWhole, isEnd: !isInside || isWhole };
}
