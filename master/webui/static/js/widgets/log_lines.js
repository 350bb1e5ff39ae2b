// The lines of a log that are here: one part without gaps, which grows at either end, and what comes meanwhile.

import { useCallback, useEffect, useRef, useState } from "../../vendor/hooks.js";
import { int64 } from "../api.js";
import { pause } from "../live.js";
import { isSessionOver } from "../store.js";

export const WINDOW = 500;
/** Of what is here; the far end goes, so that a day of following takes no more memory than a minute. */
export const MOST_LINES = 5_000;
const MOST_CHARACTERS = 10_000_000;
const EVERY_MS = 2_000;
const OVER_MS = 30_000;

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
 * @param {{ place: Place | null, follows: boolean, isOver: boolean }} options `place`: what is shown first; null: the
 *   end. Of what is over the last lines may still come, so it is followed ever so seldom.
 */
export function useLogLines(topic, read, { place, follows, isOver }) {
  const wanted = `${topic} ${JSON.stringify(place)}`;
  const [state, setState] = useState({
    wanted,
    here: /** @type {Here | null} */ (null),
    error: /** @type {Error | null} */ (null),
  });
  const isCurrent = state.wanted === wanted;
  const here = isCurrent ? state.here : null;
  const stop = useRef(new AbortController());
  const now = useRef({ here, read, isBusy: false });
  now.current.here = here;
  now.current.read = read;
  const [anew, begin] = useState(0);
  /**
   * Whether there was an answer.
   *
   * @param {Asked} asked
   * @param {(here: Here | null, part: Part) => Here} change
   */
  const ask = async (asked, change) => {
    now.current.isBusy = true;
    try {
      const part = await now.current.read(asked);
      if (asked.signal.aborted) return true;
      setState((old) => {
        const mine = old.wanted === wanted ? old.here : null;
        return { wanted, here: change(mine, part), error: null };
      });
      return true;
    } catch (error) {
      if (asked.signal.aborted) return true;
      const problem = error instanceof Error ? error : new Error(String(error));
      setState((old) => ({ wanted, here: old.wanted === wanted ? old.here : null, error: problem }));
      return false;
    } finally {
      if (asked.signal === stop.current.signal) now.current.isBusy = false;
    }
  };
  useEffect(() => {
    stop.current = new AbortController();
    const { signal } = stop.current;
    const [before, after] = [WINDOW, place ? WINDOW : 0];
    const asked = { ...place, before, after, signal };
    const end = asking(() => ask(asked, (_, part) => first(part, place !== null)), 0, null);
    return () => {
      end();
      stop.current.abort();
    };
  }, [wanted, anew]);
  const isAtEnd = here?.isEnd ?? false;
  useEffect(() => {
    if (!follows || !isAtEnd) return;
    const { signal } = stop.current;
    const look = async () => {
      const since = now.current.here?.newestId;
      if (now.current.isBusy || since === undefined) return true;
      return ask({ since, before: 0, after: WINDOW, signal }, (old, part) =>
        // More than a window has come: it is the end now, and what is between is not here.
        old && part.lines.length < WINDOW ? grown(old, part, false) : first(part, false),
      );
    };
    return asking(look, EVERY_MS, isOver ? OVER_MS : EVERY_MS);
  }, [wanted, anew, follows, isAtEnd, isOver]);
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

/**
 * Asks, and again, ever more seldom while there is no answer; not without a session.
 *
 * @param {() => Promise<boolean>} ask whether there was an answer
 * @param {number} firstMs
 * @param {number | null} everyMs null: an answer is enough
 * @returns {() => void} ends it
 */
function asking(ask, firstMs, everyMs) {
  let isOn = true;
  let failures = 0;
  const look = async () => {
    const isWaiting = isSessionOver.peek();
    const isAnswered = !isWaiting && (await ask());
    failures = isAnswered || isWaiting ? 0 : failures + 1;
    if (!isOn || (isAnswered && everyMs === null)) return;
    timer = setTimeout(look, pause(failures, isAnswered ? (everyMs ?? 0) : EVERY_MS));
  };
  let timer = setTimeout(look, firstMs);
  return () => {
    isOn = false;
    clearTimeout(timer);
  };
}
