// Lines over steps, by uPlot: drag zooms, a double click shows all again. Below are the numbers, for screen readers.

import uPlot from "../../vendor/uplot.js";
import { useLayoutEffect, useRef } from "../../vendor/hooks.js";
import { value } from "../format.js";
import { component, h } from "../html.js";
import { theme } from "../store.js";

/**
 * @typedef {object} Series
 * @property {string} label
 * @property {number[]} x ascending
 * @property {(number | null)[]} y
 * @property {boolean} [isBest] drawn thick
 */

const HEIGHT_PX = 240;
const MOST_LISTED = 50;
// Okabe and Ito's, which people who see colours differently can tell apart; then the same, dashed.
const COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8a8a8a"];
const DASHES = [[], [6, 4], [2, 3], [10, 4, 2, 4]];

export const LineChart = component(
  /** @param {{ title: string, xLabel: string, series: Series[], isLog?: boolean }} props */
  ({ title, xLabel, series, isLog = false }) => {
    const box = useRef(/** @type {HTMLDivElement | null} */ (null));
    const plot = useRef(/** @type {uPlot | null} */ (null));
    const shape = JSON.stringify([
      title,
      xLabel,
      isLog,
      theme.value,
      series.map(({ label, isBest }) => [label, isBest]),
    ]);
    const data = aligned(series, isLog);
    useLayoutEffect(() => {
      const element = box.current;
      if (!element) return;
      const drawn = new uPlot(options(element, xLabel, series, isLog), data, element);
      plot.current = drawn;
      const resized = new ResizeObserver(() => drawn.setSize({ width: element.clientWidth, height: HEIGHT_PX }));
      resized.observe(element);
      return () => {
        resized.disconnect();
        drawn.destroy();
        plot.current = null;
      };
    }, [shape]);
    useLayoutEffect(() => {
      const drawn = plot.current;
      if (!drawn) return;
      const { min, max } = drawn.scales.x ?? {};
      const before = drawn.data[0];
      const isZoomed = before.length > 0 && (min !== before[0] || max !== before.at(-1));
      drawn.setData(data, !isZoomed);
    });
    return h(
      "figure",
      { class: "chart" },
      h("figcaption", null, title),
      h("div", { ref: box, "aria-hidden": true }),
      Numbers({ title, xLabel, series }),
    );
  },
);

const Numbers = component(
  /** @param {{ title: string, xLabel: string, series: Series[] }} props */
  ({ title, xLabel, series }) =>
    h(
      "details",
      null,
      h("summary", null, "Numbers"),
      h(
        "div",
        { class: "scrolls", tabIndex: 0, role: "region", "aria-label": `Numbers of ${title}` },
        h(
          "table",
          null,
          h(
            "thead",
            null,
            h(
              "tr",
              null,
              ["Series", "Points", "First", "Last", "Smallest", "Largest", `Last ${xLabel}`].map((name) =>
                h("th", { key: name, scope: "col" }, name),
              ),
            ),
          ),
          h(
            "tbody",
            null,
            series.slice(0, MOST_LISTED).map(({ label, x, y }) => {
              const known = y.filter((one) => one !== null && Number.isFinite(one)).map(Number);
              const smallest = known.length ? known.reduce((a, b) => Math.min(a, b)) : null;
              const largest = known.length ? known.reduce((a, b) => Math.max(a, b)) : null;
              return h(
                "tr",
                { key: label },
                h("th", { scope: "row" }, label),
                [y.length, y[0], y.at(-1), smallest, largest, x.at(-1)].map((one, index) =>
                  h("td", { key: index }, value(one)),
                ),
              );
            }),
          ),
        ),
      ),
      series.length > MOST_LISTED && h("p", { class: "note" }, `The first ${MOST_LISTED} of ${series.length} series.`),
    ),
);

/**
 * On one axis. A logarithm has no place for what is not positive.
 *
 * @param {Series[]} series
 * @param {boolean} isLog
 * @returns {uPlot.AlignedData}
 */
function aligned(series, isLog) {
  if (!series.length) return [[]];
  const shown = (/** @type {number | null} */ y) => (y === null || !Number.isFinite(y) || (isLog && y <= 0) ? null : y);
  return uPlot.join(series.map(({ x, y }) => [x, y.map(shown)]));
}

/**
 * @param {HTMLElement} element
 * @param {string} xLabel
 * @param {Series[]} series
 * @param {boolean} isLog
 * @returns {uPlot.Options}
 */
function options(element, xLabel, series, isLog) {
  const text = getComputedStyle(element).color;
  const line = getComputedStyle(element.closest("figure") ?? element).borderTopColor;
  const axis = {
    stroke: text,
    grid: { stroke: line, width: 1 },
    ticks: { stroke: line, width: 1 },
    font: "12px system-ui",
  };
  return {
    width: element.clientWidth || 400,
    height: HEIGHT_PX,
    scales: { x: { time: false }, y: isLog ? { distr: 3 } : {} },
    axes: [
      { ...axis, label: xLabel, labelSize: 20 },
      { ...axis, size: 60 },
    ],
    legend: { show: series.length <= COLOURS.length, live: true },
    cursor: { drag: { x: true, y: false } },
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
  };
}
