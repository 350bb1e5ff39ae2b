// Bars on an axis of time, drawn on a canvas as far as they are in sight. It has no words for screen readers: who uses
// it shows a table of the same numbers beside it.

import { useEffect, useLayoutEffect, useRef, useState } from "../../vendor/hooks.js";
import { component, h } from "../html.js";
import { theme } from "../store.js";
import { fitted, sheetOf } from "./canvas.js";
import { rowsInSight } from "./virtual.js";

/**
 * How a span is drawn: `outline`: not there yet; `low`: on its way; `full`: at work; `pale`: without work;
 * `hatched`: of no use.
 *
 * @typedef {"outline" | "low" | "full" | "pale" | "hatched"} Look
 */
/** @typedef {{ start: number, end: number, look: Look, hint: string }} Span Moments in milliseconds. */
/** @typedef {{ id: string, title: string, group: string, hint: string, spans: Span[] }} Bar One colour for a group. */

const ROW_PX = 22;
const BAR_PX = 14;
const AXIS_PX = 24;
const MOST_PX = 420;
const NARROW_PX = 600;
const TICK_PX = 90;
const STEPS_MIN = [1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720, 1440, 2880, 7200, 14400];
// Okabe and Ito's, which people who see colours differently can tell apart.
const COLOURS = [
  { name: "blue", colour: "#0072b2" },
  { name: "orange", colour: "#d55e00" },
  { name: "green", colour: "#009e73" },
  { name: "pink", colour: "#cc79a7" },
];

/** @param {string[]} groups @param {string} group */
function colourOf(groups, group) {
  return COLOURS[Math.max(0, groups.indexOf(group)) % COLOURS.length] ?? { name: "", colour: "" };
}

/** What the colour of a group is called, for a legend. @param {string[]} groups @param {string} group */
export function colourName(groups, group) {
  return colourOf(groups, group).name;
}

/**
 * Round moments of the reader's time zone, so that their words do not overlap.
 *
 * @param {number} from
 * @param {number} to
 * @param {number} widthPx
 */
export function ticks(from, to, widthPx) {
  const least = ((to - from) / 60_000) * (TICK_PX / Math.max(TICK_PX, widthPx));
  const step = (STEPS_MIN.find((one) => one >= least) ?? 43_200) * 60_000;
  const zone = new Date(from).getTimezoneOffset() * 60_000;
  const found = [];
  for (let at = Math.ceil((from - zone) / step) * step + zone; at <= to; at += step) found.push(at);
  return found;
}

export const Timeline = component(
  /**
   * @param {object} props
   * @param {Bar[]} props.bars
   * @param {string[]} props.groups in the order of their colours
   * @param {number} props.from
   * @param {number} props.to
   * @param {(id: string) => void} [props.open] of a bar that is clicked
   */
  ({ bars, groups, from, to, open }) => {
    const box = useRef(/** @type {HTMLDivElement | null} */ (null));
    const canvas = useRef(/** @type {HTMLCanvasElement | null} */ (null));
    const [view, setView] = useState({ scrollPx: 0, widthPx: 0 });
    const viewPx = Math.min(MOST_PX, bars.length * ROW_PX + AXIS_PX);
    const labelPx = view.widthPx < NARROW_PX ? 84 : 180;
    const sight = rowsInSight({
      total: bars.length,
      rowPx: ROW_PX,
      scrollPx: view.scrollPx,
      viewPx: viewPx - AXIS_PX,
    });

    useEffect(() => {
      const element = box.current;
      if (!element) return;
      const look = () => setView({ scrollPx: element.scrollTop, widthPx: element.clientWidth });
      const resized = new ResizeObserver(look);
      resized.observe(element);
      element.addEventListener("scroll", look, { passive: true });
      return () => {
        resized.disconnect();
        element.removeEventListener("scroll", look);
      };
    }, []);
    useLayoutEffect(() => {
      const element = canvas.current;
      if (!element || !view.widthPx) return;
      const size = { widthPx: view.widthPx, heightPx: viewPx, labelPx };
      const paint = painter(element, size, { from, to });
      paint.grid();
      for (let index = sight.first; index < sight.last; index += 1) {
        const bar = bars[index];
        if (bar) paint.bar(bar, index * ROW_PX - view.scrollPx + AXIS_PX, colourOf(groups, bar.group).colour);
      }
      paint.axis();
    }, [bars, groups, from, to, view, viewPx, labelPx, theme.value]);

    const barAt = (/** @type {MouseEvent} */ event, /** @type {DOMRect} */ place) => {
      const index = Math.floor((event.clientY - place.top - AXIS_PX + view.scrollPx) / ROW_PX);
      return event.clientY - place.top < AXIS_PX ? undefined : bars[index];
    };
    const press = (/** @type {MouseEvent} */ event) => {
      const bar = canvas.current && barAt(event, canvas.current.getBoundingClientRect());
      if (bar) open?.(bar.id);
    };
    const point = (/** @type {MouseEvent} */ event) => {
      const element = canvas.current;
      if (!element) return;
      const place = element.getBoundingClientRect();
      const bar = barAt(event, place);
      const share = (event.clientX - place.left - labelPx) / (view.widthPx - labelPx);
      const moment = from + share * (to - from);
      const span = bar?.spans.find((one) => one.start <= moment && moment < one.end);
      element.title = bar ? (span ? `${bar.title}: ${span.hint}` : bar.hint) : "";
    };
    return h(
      "div",
      { class: "timeline", ref: box, style: { height: `${viewPx}px` }, "aria-hidden": true },
      h(
        "div",
        { style: { height: `${bars.length * ROW_PX + AXIS_PX}px` } },
        h("canvas", { ref: canvas, onMouseMove: point, onClick: press }),
      ),
    );
  },
);

/**
 * @param {HTMLCanvasElement} element
 * @param {{ widthPx: number, heightPx: number, labelPx: number }} size
 * @param {{ from: number, to: number }} time
 */
function painter(element, { widthPx, heightPx, labelPx }, { from, to }) {
  const { pen, background, text } = sheetOf(element, widthPx, heightPx);
  const x = (/** @type {number} */ moment) => labelPx + ((moment - from) / (to - from)) * (widthPx - labelPx);
  const isLong = to - from > 2 * 86_400_000;
  /** @type {Intl.DateTimeFormatOptions} */
  const words = isLong ? { month: "short", day: "numeric" } : { hour: "2-digit", minute: "2-digit" };
  const clock = new Intl.DateTimeFormat(undefined, words);
  const moments = ticks(from, to, widthPx - labelPx);

  const grid = () => {
    pen.fillStyle = text;
    pen.globalAlpha = 0.2;
    for (const moment of moments) pen.fillRect(x(moment), AXIS_PX, 1, heightPx);
    pen.globalAlpha = 1;
  };
  const axis = () => {
    pen.fillStyle = background;
    pen.fillRect(0, 0, widthPx, AXIS_PX);
    pen.fillStyle = text;
    pen.textAlign = "center";
    for (const moment of moments) {
      if (x(moment) < widthPx - 20) pen.fillText(clock.format(moment), x(moment), AXIS_PX / 2);
    }
  };
  const bar = (/** @type {Bar} */ one, /** @type {number} */ top, /** @type {string} */ colour) => {
    if (top < AXIS_PX - ROW_PX) return;
    const y = top + (ROW_PX - BAR_PX) / 2;
    for (const { start, end, look } of one.spans) {
      const left = Math.max(labelPx, x(start));
      paint(pen, look, colour, { left, y, width: Math.max(1, Math.min(widthPx, x(end)) - left) });
    }
    pen.fillStyle = background;
    pen.fillRect(0, top, labelPx - 4, ROW_PX);
    pen.fillStyle = text;
    pen.fillText(fitted(pen, one.title, labelPx - 8), 0, top + ROW_PX / 2);
  };
  return { grid, bar, axis };
}

/**
 * @param {CanvasRenderingContext2D} pen
 * @param {Look} look
 * @param {string} colour
 * @param {{ left: number, y: number, width: number }} place
 */
function paint(pen, look, colour, { left, y, width }) {
  pen.fillStyle = colour;
  pen.strokeStyle = colour;
  if (look === "full") pen.fillRect(left, y, width, BAR_PX);
  else if (look === "low") pen.fillRect(left, y + BAR_PX / 4, width, BAR_PX / 2);
  else {
    if (look === "pale") {
      pen.globalAlpha = 0.3;
      pen.fillRect(left, y, width, BAR_PX);
      pen.globalAlpha = 1;
    }
    pen.setLineDash(look === "outline" ? [3, 3] : []);
    pen.strokeRect(left + 0.5, y + 0.5, Math.max(0, width - 1), BAR_PX - 1);
    pen.setLineDash([]);
    if (look === "hatched") hatch(pen, left, y, width);
  }
}

/** @param {CanvasRenderingContext2D} pen @param {number} left @param {number} y @param {number} width */
function hatch(pen, left, y, width) {
  pen.save();
  pen.beginPath();
  pen.rect(left, y, width, BAR_PX);
  pen.clip();
  pen.beginPath();
  for (let at = left - BAR_PX; at < left + width; at += 5) {
    pen.moveTo(at, y + BAR_PX);
    pen.lineTo(at + BAR_PX, y);
  }
  pen.stroke();
  pen.restore();
}
