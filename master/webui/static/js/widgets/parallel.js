// Parallel coordinates: an axis for each quantity, a line for each row. Dragging along an axis chooses a range of it.

import { useRef, useState } from "../../vendor/hooks.js";
import { component, h } from "../html.js";
import { fitted, shade, useCanvas } from "./canvas.js";
import { Figure } from "./figure.js";

/** @typedef {import("./scale.js").Scale} Scale */
/** @typedef {import("./scale.js").Range} Range */
/** @typedef {{ id: string, title: string, values: unknown[], scale: Scale }} Axis A value for each row. */
/** @typedef {(number | null)[]} Shares Of each row from 0, the best, to 1; null: not known. */

const HEIGHT_PX = 360;
const TOP_PX = 32;
const BOTTOM_PX = 44;
const SIDE_PX = 56;
const LEAST_AXIS_PX = 110;
const BRUSH_PX = 14;
const SNAP_PX = 8;
const TICKS = 6;
// More lines than these are drawn ever fainter, so that one sees where many are.
const MOST_CLEAR = 200;

/** Where an axis is. @param {number} index @param {number} count @param {number} widthPx */
function across(index, count, widthPx) {
  return count > 1 ? SIDE_PX + (index * (widthPx - 2 * SIDE_PX)) / (count - 1) : widthPx / 2;
}

/** What has no place on the axis lies below it. @param {number | null} place */
function down(place) {
  const bottom = HEIGHT_PX - BOTTOM_PX;
  return place === null ? bottom + 20 : bottom - place * (bottom - TOP_PX);
}

/** Near an end of the axis is the end. @param {number} y */
function placeAt(y) {
  const bottom = HEIGHT_PX - BOTTOM_PX;
  if (Math.abs(y - TOP_PX) < SNAP_PX) return 1;
  if (Math.abs(y - bottom) < SNAP_PX) return 0;
  return Math.max(0, Math.min(1, (bottom - y) / (bottom - TOP_PX)));
}

export const Parallel = component(
  /**
   * @param {object} props
   * @param {string} props.title
   * @param {string} [props.hint]
   * @param {Axis[]} props.axes
   * @param {Shares} props.shares
   * @param {boolean[]} props.within which rows are in all ranges
   * @param {Record<string, Range>} props.ranges by axis
   * @param {(id: string, range: Range | null) => void} props.onRange
   * @param {() => import("./figure.js").Numbers} props.numbers
   */
  ({ title, hint, axes, shares, within, ranges, onRange, numbers }) => {
    const [drag, setDrag] = useState(/** @type {{ id: string, from: number, to: number } | null} */ (null));
    const pressed = useRef(/** @type {typeof drag} */ (null));
    const { canvas, element, widthPx } = useCanvas(
      (sheet) => paint(sheet, axes, shares, within),
      [axes, shares, within],
      { heightPx: HEIGHT_PX, leastPx: axes.length * LEAST_AXIS_PX },
    );
    const at = (/** @type {PointerEvent} */ event) => {
      const place = event.currentTarget instanceof Element ? event.currentTarget.getBoundingClientRect() : null;
      return { x: event.clientX - (place?.left ?? 0), y: event.clientY - (place?.top ?? 0) };
    };
    const start = (/** @type {PointerEvent} */ event) => {
      const { x, y } = at(event);
      const axis = axes.find((_, index) => Math.abs(across(index, axes.length, widthPx) - x) < LEAST_AXIS_PX / 3);
      if (!axis || event.button) return;
      if (event.currentTarget instanceof Element) event.currentTarget.setPointerCapture(event.pointerId);
      pressed.current = { id: axis.id, from: placeAt(y), to: placeAt(y) };
      setDrag(pressed.current);
    };
    const move = (/** @type {PointerEvent} */ event) => {
      if (!pressed.current) return;
      pressed.current = { ...pressed.current, to: placeAt(at(event).y) };
      setDrag(pressed.current);
    };
    const end = () => {
      const done = pressed.current;
      pressed.current = null;
      setDrag(null);
      const axis = done && axes.find((one) => one.id === done.id);
      if (!axis) return;
      const [from, to] = [Math.min(done.from, done.to), Math.max(done.from, done.to)];
      const range = to - from > 0.01 ? axis.scale.range(from, to) : null;
      onRange(axis.id, range?.length ? range : null);
    };
    const brushes = axes.map((axis, index) => {
      const range = ranges[axis.id];
      const places = drag?.id === axis.id ? [drag.from, drag.to] : range ? placesOf(axis, range) : null;
      if (!places) return null;
      const [top, bottom] = [down(Math.max(...places)), down(Math.min(...places))];
      const left = across(index, axes.length, widthPx) - BRUSH_PX / 2;
      const style = { left: `${left}px`, top: `${top - 2}px`, height: `${bottom - top + 4}px` };
      return h("div", { key: axis.id, class: "brush", style });
    });
    return Figure({
      title,
      hint,
      numbers,
      image: () => canvas.current,
      children: h(
        "div",
        { class: "scrolls", tabIndex: 0, role: "region", "aria-label": `${title}: drawing` },
        h(
          "div",
          { class: "brushed", onPointerDown: start, onPointerMove: move, onPointerUp: end, onPointerCancel: end },
          element,
          brushes,
        ),
      ),
    });
  },
);

/** @param {Axis} axis @param {Range} range */
function placesOf({ scale }, range) {
  const values = scale.kind === "words" ? range.map((word) => JSON.parse(String(word))) : range;
  const places = values.map(scale.place).filter((one) => one !== null);
  return places.length ? places.map((one) => Math.max(0, Math.min(1, one))) : null;
}

/**
 * @param {import("./canvas.js").Sheet} sheet
 * @param {Axis[]} axes
 * @param {Shares} shares
 * @param {boolean[]} within
 */
function paint({ pen, widthPx, text, line, background, colour }, axes, shares, within) {
  const places = axes.map(({ scale, values }) => values.map((one) => down(scale.place(one))));
  const x = axes.map((_, index) => across(index, axes.length, widthPx));
  const chosen = within.filter(Boolean).length;
  const unknown = colour("--muted");
  const draw = (/** @type {number} */ row) => {
    pen.beginPath();
    for (const [index, column] of places.entries()) pen.lineTo(x[index] ?? 0, column[row] ?? 0);
    pen.stroke();
  };
  pen.strokeStyle = line;
  pen.globalAlpha = 0.5;
  for (const [row, is] of within.entries()) if (!is) draw(row);
  pen.globalAlpha = Math.max(0.05, Math.min(0.8, (0.8 * MOST_CLEAR) / Math.max(1, chosen)));
  for (let row = within.length - 1; row >= 0; row -= 1) {
    if (!within[row]) continue;
    const share = shares[row];
    pen.strokeStyle = share === null || share === undefined ? unknown : shade(share);
    draw(row);
  }
  pen.globalAlpha = 1;
  const each = axes.length > 1 ? (widthPx - 2 * SIDE_PX) / (axes.length - 1) : widthPx;
  for (const [index, axis] of axes.entries()) {
    const at = x[index] ?? 0;
    pen.strokeStyle = text;
    pen.beginPath();
    pen.moveTo(at, down(1));
    pen.lineTo(at, down(0));
    pen.stroke();
    pen.fillStyle = text;
    const isLast = index > 0 && index === axes.length - 1;
    pen.textAlign = isLast ? "right" : index ? "center" : "left";
    const edge = isLast ? widthPx : index ? at : 0;
    pen.fillText(fitted(pen, axis.title, index && !isLast ? each - 8 : (each + SIDE_PX) / 2), edge, TOP_PX / 2);
    if (axis.values.some((one) => axis.scale.place(one) === null)) label(pen, "none", at - 14, down(null), background);
    pen.textAlign = "left";
    for (const tick of axis.scale.ticks(TICKS)) {
      label(pen, fitted(pen, tick.text, each / 2), at + 6, down(tick.at), background);
    }
  }
}

/**
 * @param {CanvasRenderingContext2D} pen
 * @param {string} words
 * @param {number} x
 * @param {number} y
 * @param {string} background
 */
function label(pen, words, x, y, background) {
  const colour = pen.fillStyle;
  pen.textAlign = "left";
  pen.globalAlpha = 0.7;
  pen.fillStyle = background;
  pen.fillRect(x - 2, y - 8, pen.measureText(words).width + 4, 16);
  pen.globalAlpha = 1;
  pen.fillStyle = colour;
  pen.fillText(words, x, y);
}
