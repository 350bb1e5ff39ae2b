// The keys of a list: j k move, Enter opens, x selects, Shift+X a range.

import { useRef, useState } from "../../vendor/hooks.js";
import { go } from "../router.js";

/**
 * @template Row
 * @typedef {import("./table.js").TableProps<Row>} Props
 */

/**
 * @template Row
 * @param {Props<Row> & { total: number, reveal: (index: number) => void, pageRows: number }} list
 * @returns {{ active: number | null, setActive: (index: number) => void, keys: import("../keys.js").Keys }}
 */
export function useRowKeys(list) {
  const { total, reveal } = list;
  const [active, setActive] = useState(/** @type {number | null} */ (null));
  // Keys come faster than pages are drawn.
  const at = useRef({ active, anchor: 0, list });
  at.current.list = list;
  const activate = (/** @type {number} */ index) => {
    at.current.active = index;
    setActive(index);
  };
  const move = (/** @type {number} */ to) => {
    if (!total) return;
    const index = Math.max(0, Math.min(total - 1, to));
    activate(index);
    reveal(index);
  };
  const by = (/** @type {number} */ rows) => move(at.current.active === null ? 0 : at.current.active + rows);
  const page = Math.max(1, Math.floor(list.pageRows) - 1);
  const row = () => (at.current.active === null ? undefined : at.current.list.source.row(at.current.active));
  const open = () => {
    const one = row();
    if (one !== undefined && list.link) go(list.link(one));
  };
  const select = () => {
    const [one, { rowKey, selected, onSelect }] = [row(), at.current.list];
    if (one === undefined || !onSelect) return;
    const keys = new Set(selected);
    if (!keys.delete(rowKey(one))) keys.add(rowKey(one));
    at.current.anchor = at.current.active ?? 0;
    onSelect(keys);
  };
  const selectRange = () => {
    const { active: end, anchor, list: now } = at.current;
    if (end === null || !now.onSelect) return;
    const keys = new Set(now.selected);
    for (let index = Math.min(anchor, end); index <= Math.max(anchor, end); index += 1) {
      const one = now.source.row(index);
      if (one !== undefined) keys.add(now.rowKey(one));
    }
    now.onSelect(keys);
  };
  return {
    active: active !== null && active < total ? active : null,
    setActive: activate,
    keys: {
      j: () => by(1),
      k: () => by(-1),
      ArrowDown: () => by(1),
      ArrowUp: () => by(-1),
      PageDown: () => by(page),
      PageUp: () => by(-page),
      Home: () => move(0),
      End: () => move(total - 1),
      Enter: open,
      x: select,
      X: selectRange,
    },
  };
}
