// Windows of a list that the master keeps: only those in sight are asked for, and again as time goes on.

import { useMemo, useState } from "../../vendor/hooks.js";
import { useLive } from "../live.js";

export const WINDOW = 200;

/**
 * @template Row
 * @typedef {{ rows: Row[], total: number }} Window
 */

/**
 * @template Row
 * @typedef {object} Source
 * @property {number | null} total null: not known yet
 * @property {(index: number) => Row | undefined} row undefined: not here yet
 * @property {(first: number, last: number) => void} show what is in sight
 * @property {Error | null} error
 * @property {() => void} refresh
 */

/**
 * @template Row
 * @param {string} topic as `useLive` takes it; other filters or another order, after a colon, are another topic
 * @param {(offset: number, limit: number, signal: AbortSignal) => Promise<Window<Row>>} load
 * @returns {Source<Row>}
 */
export function useWindows(topic, load) {
  const [sight, setSight] = useState({ first: 0, last: 1 });
  const pages = useMemo(() => new Map(/** @type {[number, Row[]][]} */ ([])), [topic]);
  const from = Math.floor(sight.first / WINDOW);
  const to = Math.floor(Math.max(sight.first, sight.last - 1) / WINDOW);
  const live = useLive(`${topic}${topic.includes(":") ? "" : ":"} ${from}-${to}`, async (signal) => {
    const wanted = Array.from({ length: to - from + 1 }, (_, index) => from + index);
    const found = await Promise.all(wanted.map((page) => load(page * WINDOW, WINDOW, signal)));
    for (const [index, window] of found.entries()) pages.set(from + index, window.rows);
    return { total: found[0]?.total ?? 0, pages };
  });
  const [known, setKnown] = useState({ topic, total: /** @type {number | null} */ (null) });
  const total = live.data?.pages === pages ? live.data.total : known.topic === topic ? known.total : null;
  if (total !== known.total || known.topic !== topic) setKnown({ topic, total });
  return {
    total,
    row: (index) => pages.get(Math.floor(index / WINDOW))?.[index % WINDOW],
    show: (first, last) => {
      const differs = Math.floor(first / WINDOW) !== from || Math.floor(Math.max(first, last - 1) / WINDOW) !== to;
      if (differs) setSight({ first, last });
    },
    error: live.error,
    refresh: live.refresh,
  };
}

/**
 * The same for what is here already.
 *
 * @template Row
 * @param {Row[] | null} rows
 * @param {Error | null} [error]
 * @returns {Source<Row>}
 */
export function listed(rows, error = null) {
  return { total: rows?.length ?? null, row: (index) => rows?.[index], show: () => {}, error, refresh: () => {} };
}
