// A canvas as wide as its place, drawn again when what it shows, its width or the theme changes.

import { useEffect, useLayoutEffect, useRef, useState } from "../../vendor/hooks.js";
import { h } from "../html.js";
import { theme } from "../store.js";

/**
 * @typedef {object} Sheet
 * @property {CanvasRenderingContext2D} pen in CSS pixels
 * @property {number} widthPx
 * @property {number} heightPx
 * @property {string} text colour
 * @property {string} line
 * @property {string} background
 * @property {(token: string) => string} colour as it is now: light or dark
 */

/**
 * @param {(sheet: Sheet) => void} paint
 * @param {unknown[]} inputs it is painted again when one of them is another
 * @param {{ heightPx: number, leastPx?: number }} size `leastPx`: narrower places scroll
 * @param {Parameters<typeof h<"canvas">>[1]} [attributes]
 */
export function useCanvas(paint, inputs, { heightPx, leastPx = 0 }, attributes = {}) {
  const box = useRef(/** @type {HTMLDivElement | null} */ (null));
  const canvas = useRef(/** @type {HTMLCanvasElement | null} */ (null));
  const [placePx, setPlace] = useState(0);
  const widthPx = Math.max(placePx, leastPx);
  useEffect(() => {
    const element = box.current;
    if (!element) return;
    const resized = new ResizeObserver(() => setPlace(element.clientWidth));
    resized.observe(element);
    return () => resized.disconnect();
  }, []);
  useLayoutEffect(() => {
    const element = canvas.current;
    if (element && placePx) paint(sheetOf(element, widthPx, heightPx));
  }, [...inputs, placePx, leastPx, heightPx, theme.value]);
  return {
    canvas,
    widthPx,
    element: h("div", { ref: box, class: "sheet", "aria-hidden": true }, h("canvas", { ...attributes, ref: canvas })),
  };
}

/**
 * Empty, of that size, and as sharp as the screen is.
 *
 * @param {HTMLCanvasElement} element
 * @param {number} widthPx
 * @param {number} heightPx
 * @returns {Sheet}
 */
export function sheetOf(element, widthPx, heightPx) {
  const scale = window.devicePixelRatio || 1;
  element.width = Math.round(widthPx * scale);
  element.height = Math.round(heightPx * scale);
  element.style.width = `${widthPx}px`;
  element.style.height = `${heightPx}px`;
  const pen = /** @type {CanvasRenderingContext2D} */ (element.getContext("2d"));
  pen.scale(scale, scale);
  pen.font = "12px system-ui";
  pen.textBaseline = "middle";
  const figure = getComputedStyle(element.closest("figure") ?? element);
  return {
    pen,
    widthPx,
    heightPx,
    text: getComputedStyle(element).color,
    line: figure.borderTopColor,
    background: getComputedStyle(document.body).backgroundColor,
    colour: (token) => {
      element.style.color = `var(${token})`;
      const found = getComputedStyle(element).color;
      element.style.color = "";
      return found;
    },
  };
}

/** @param {CanvasRenderingContext2D} pen @param {string} text @param {number} widthPx */
export function fitted(pen, text, widthPx) {
  if (pen.measureText(text).width <= widthPx) return text;
  let end = text.length;
  while (end > 1 && pen.measureText(`${text.slice(0, end)}…`).width > widthPx) end -= 1;
  return `${text.slice(0, end)}…`;
}

const [BEST, MIDDLE, WORST] = [
  [0, 114, 178],
  [138, 138, 138],
  [213, 94, 0],
];

/** From blue over grey to orange, which all tell apart. @param {number} share 0: the best */
export function shade(share) {
  const [from, to, part] = share < 0.5 ? [BEST, MIDDLE, share * 2] : [MIDDLE, WORST, share * 2 - 1];
  const mixed = [0, 1, 2].map((at) => Math.round((from?.[at] ?? 0) * (1 - part) + (to?.[at] ?? 0) * part));
  return `rgb(${mixed.join()})`;
}
