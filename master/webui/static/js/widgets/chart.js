// Lines over steps or time, by uPlot: drag zooms, a double click shows all again, a click opens what a line is of.

import uPlot from "../../vendor/uplot.js";
import { useLayoutEffect, useRef } from "../../vendor/hooks.js";
import { component, h } from "../html.js";
import { go } from "../router.js";
import { theme } from "../store.js";
import { Figure } from "./figure.js";
import { aligned, points, signs, summary } from "./line_data.js";

/** @typedef {import("./line_data.js").Series} Series */
/** @typedef {{ x: number, title: string }} Marker */
/** @typedef {{ from: number, to: number }} Part Of the horizontal axis. */

const HEIGHT_PX = 240;
const NEAR_PX = 16;
const CLICK_PX = 3;
// Okabe and Ito's, which people who see colours differently can tell apart; then the same, dashed.
const COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8a8a8a"];
const DASHES = [[], [6, 4], [2, 3], [10, 4, 2, 4]];
/** @type {Marker[]} */
const NO_MARKERS = [];

export const LineChart = component(
  /**
   * @param {object} props
   * @param {string} props.title
   * @param {string} props.xLabel
   * @param {Series[]} props.series
   * @param {boolean} [props.isLog]
   * @param {number} [props.smoothing] weight of what was before, from 0 to below 1
   * @param {Marker[]} [props.markers] lines across; their titles are notes below
   * @param {string[]} [props.notes]
   * @param {string} [props.hint] what it shows
   * @param {(part: Part | null) => void} [props.onZoom] null: all of it is in sight again
   */
  ({ title, xLabel, series, isLog = false, smoothing = 0, markers = NO_MARKERS, notes: given = [], hint, onZoom }) => {
    const zoom = useRef(onZoom);
    zoom.current = onZoom;
    const box = useRef(/** @type {HTMLDivElement | null} */ (null));
    const plot = useRef(/** @type {uPlot | null} */ (null));
    const { hasPositive, notPositive } = isLog ? signs(series) : { hasPositive: true, notPositive: 0 };
    const asLog = isLog && hasPositive;
    const shape = JSON.stringify([
      title,
      xLabel,
      asLog,
      markers,
      theme.value,
      series.map(({ label, isBest, href }) => [label, isBest, href]),
    ]);
    const data = aligned(series, { isLog: asLog, smoothing });
    useLayoutEffect(() => {
      const element = box.current;
      if (!element) return;
      const near = { line: /** @type {Series | undefined} */ (undefined) };
      const found = options(element, xLabel, series, asLog, markers);
      found.hooks?.setSeries?.push((_, index, changed) => {
        if ("focus" in changed) near.line = series[(index ?? 0) - 1];
      });
      found.hooks?.setScale?.push((drawn, key) => {
        if (key === "x") zoom.current?.(partInSight(drawn));
      });
      const drawn = new uPlot(found, data, element);
      plot.current = drawn;
      const forget = followLines(drawn, near);
      const resized = new ResizeObserver(() => drawn.setSize({ width: element.clientWidth, height: HEIGHT_PX }));
      resized.observe(element);
      return () => {
        resized.disconnect();
        forget();
        drawn.destroy();
        plot.current = null;
      };
    }, [shape]);
    useLayoutEffect(() => {
      const drawn = plot.current;
      if (!drawn) return;
      drawn.setData(data, partInSight(drawn) === null);
    });
    const notes = [...given, ...markers.map((marker) => marker.title)];
    if (isLog && !hasPositive && series.length) notes.push("No value is positive, so the axis is not logarithmic.");
    else if (notPositive) notes.push(`${notPositive} zero or negative values have no place on a logarithmic axis.`);
    if (smoothing) notes.push("The lines are smoothed; numbers and CSV are as reported.");
    return Figure({
      title,
      hint,
      notes,
      numbers: () => summary(series, xLabel),
      data: () => points(series, xLabel),
      image: () => plot.current?.ctx.canvas,
      children: h("div", { ref: box, "aria-hidden": true }),
    });
  },
);

/** Null: all. @param {uPlot} drawn @returns {Part | null} */
function partInSight({ scales, data: [x] }) {
  const { min, max } = scales.x ?? {};
  const [first, last] = [x[0], x.at(-1)];
  if (x.length < 2 || first === undefined || last === undefined || min === undefined || max === undefined) return null;
  return min === null || max === null || (min <= first && last <= max) ? null : { from: min, to: max };
}

/**
 * The name of the line that is near the pointer, and a click on it.
 *
 * @param {uPlot} drawn
 * @param {{ line: Series | undefined }} near
 */
function followLines(drawn, near) {
  /** @type {{ x: number, y: number } | null} */
  let pressed = null;
  const down = (/** @type {MouseEvent} */ event) => void (pressed = { x: event.clientX, y: event.clientY });
  const up = (/** @type {MouseEvent} */ event) => {
    const moved = pressed ? Math.hypot(event.clientX - pressed.x, event.clientY - pressed.y) : 0;
    const href = near.line?.href;
    if (href && pressed && moved < CLICK_PX) go(href);
    pressed = null;
  };
  const move = () => {
    drawn.over.title = near.line?.label ?? "";
    drawn.over.classList.toggle("leads", Boolean(near.line?.href));
  };
  const parts = /** @type {const} */ ([
    ["mousedown", down],
    ["mouseup", up],
    ["mousemove", move],
  ]);
  for (const [event, act] of parts) drawn.over.addEventListener(event, act);
  return () => {
    for (const [event, act] of parts) drawn.over.removeEventListener(event, act);
  };
}

/**
 * @param {HTMLElement} element
 * @param {string} xLabel
 * @param {Series[]} series
 * @param {boolean} isLog
 * @param {Marker[]} markers
 * @returns {uPlot.Options}
 */
function options(element, xLabel, series, isLog, markers) {
  const text = getComputedStyle(element).color;
  const line = getComputedStyle(element.closest("figure") ?? element).borderTopColor;
  const axis = {
    stroke: text,
    grid: { stroke: line, width: 1 },
    ticks: { stroke: line, width: 1 },
    font: "12px system-ui",
  };
  const isFew = series.length <= COLOURS.length;
  return {
    width: element.clientWidth || 400,
    height: HEIGHT_PX,
    scales: { x: { time: false }, y: isLog ? { distr: 3 } : {} },
    axes: [
      { ...axis, label: xLabel, labelSize: 20 },
      { ...axis, size: 60 },
    ],
    legend: { show: isFew, live: true },
    cursor: { drag: { x: true, y: false }, focus: { prox: NEAR_PX } },
    focus: { alpha: isFew ? 1 : 0.25 },
    series: [
      { label: xLabel },
      ...series.map(({ label, isBest }, index) => ({
        label,
        stroke: COLOURS[index % COLOURS.length],
        dash: DASHES[Math.floor(index / COLOURS.length) % DASHES.length],
        width: isBest ? 3 : 1.5,
        spanGaps: true,
      })),
    ],
    hooks: { draw: [(drawn) => drawMarkers(drawn, markers, text)], setScale: [], setSeries: [] },
  };
}

/** Those beyond the axis at its end. @param {uPlot} drawn @param {Marker[]} markers @param {string} colour */
function drawMarkers(drawn, markers, colour) {
  const { ctx: pen, bbox } = drawn;
  pen.save();
  pen.strokeStyle = colour;
  pen.setLineDash([3, 3]);
  for (const { x } of markers) {
    const at = Math.max(bbox.left, Math.min(bbox.left + bbox.width, drawn.valToPos(x, "x", true)));
    pen.beginPath();
    pen.moveTo(at, bbox.top);
    pen.lineTo(at, bbox.top + bbox.height);
    pen.stroke();
  }
  pen.restore();
}
