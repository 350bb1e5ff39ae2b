// The keys of a list: j k move, Enter opens, x selects, Shift+X a range.

import { useState } from "../../vendor/hooks.js";
import { go } from "../router.js";

/**
 * @template Row
 * @param {import("./table.js").TableProps<Row> & { total: number, reveal: (index: number) => void, pageRows: number }} list
 * @returns {{ active: number | null, setActive: (index: number) => void, keys: import("../keys.js").Keys }}
 */
export function useRowKeys(list) {
  const { total, source, rowKey, link, selected, onSelect, reveal } = list;
  const [active, setActive] = useState(/** @type {number | null} */ (null));
  const [anchor, setAnchor] = useState(0);
  const move = (/** @type {number} */ to) => {
    if (!total) return;
    const index = Math.max(0, Math.min(total - 1, to));
    setActive(index);
    reveal(index);
  };
  const next = () => move(active === null ? 0 : active + 1);
  const previous = () => move(active === null ? 0 : active - 1);
  const page = Math.max(1, Math.floor(list.pageRows) - 1);
  const open = () => {
    const row = active === null ? undefined : source.row(active);
    if (row !== undefined && link) go(link(row));
  };
  const select = () => {
    const row = active === null ? undefined : source.row(active);
    if (row === undefined || !onSelect) return;
    const keys = new Set(selected);
    if (!keys.delete(rowKey(row))) keys.add(rowKey(row));
    setAnchor(active ?? 0);
    onSelect(keys);
  };
  const selectRange = () => {
    if (active === null || !onSelect) return;
    const keys = new Set(selected);
    for (let index = Math.min(anchor, active); index <= Math.max(anchor, active); index += 1) {
      const row = source.row(index);
      if (row !== undefined) keys.add(rowKey(row));
    }
    onSelect(keys);
  };
  return {
    active: active !== null && active < total ? active : null,
    setActive,
    keys: {
      j: next,
      k: previous,
      ArrowDown: next,
      ArrowUp: previous,
      PageDown: () => move((active ?? 0) + page),
      PageUp: () => move((active ?? 0) - page),
      Home: () => move(0),
      End: () => move(total - 1),
      ...(active === null ? {} : { Enter: open, x: select, X: selectRange }),
    },
  };
}
