// Which rows of a long list are in sight. Pure.

/** Browsers cut boxes that are higher than some 33 million pixels, or 17. */
export const TALLEST_PX = 15_000_000;
const MORE_ROWS = 8;

/**
 * @typedef {object} Sight
 * @property {number} first
 * @property {number} last the one after the last
 * @property {number} tall pixels of the box that scrolls
 * @property {(index: number) => number} top where a row is in it
 */

/**
 * @param {{ total: number, rowPx: number, scrollPx: number, viewPx: number }} list
 * @returns {Sight}
 */
export function rowsInSight({ total, rowPx, scrollPx, viewPx }) {
  const tall = Math.min(total * rowPx, TALLEST_PX);
  const scale = tall > viewPx ? (total * rowPx - viewPx) / (tall - viewPx) : 1;
  const scroll = Math.max(0, Math.min(scrollPx, Math.max(0, tall - viewPx)));
  const offset = scroll * scale;
  return {
    first: Math.max(0, Math.floor(offset / rowPx) - MORE_ROWS),
    last: Math.min(total, Math.ceil((offset + viewPx) / rowPx) + MORE_ROWS),
    tall,
    top: (index) => scroll + (index * rowPx - offset),
  };
}

/**
 * Where to scroll to so that a row is in sight; null if it is.
 *
 * @param {number} index
 * @param {{ total: number, rowPx: number, scrollPx: number, viewPx: number }} list
 */
export function scrollTo(index, list) {
  const { total, rowPx, viewPx } = list;
  const tall = Math.min(total * rowPx, TALLEST_PX);
  const scale = tall > viewPx ? (total * rowPx - viewPx) / (tall - viewPx) : 1;
  const offset = list.scrollPx * scale;
  if (index * rowPx < offset) return (index * rowPx) / scale;
  if ((index + 1) * rowPx > offset + viewPx) return ((index + 1) * rowPx - viewPx) / scale;
  return null;
}
