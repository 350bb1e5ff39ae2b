// A bracket of a halving search: rungs side by side, trials by their metric, lines up to the next rung, and where each
// rung cuts.

import { component, h } from "../html.js";
import { go } from "../router.js";
import { value } from "../format.js";
import { fitted, useCanvas } from "./canvas.js";
import { Figure } from "./figure.js";
import { scaleOf } from "./scale.js";

/** @typedef {{ id: string, title: string, href: string }} Trial */
/** @typedef {Trial & { metric: number | null, wentOn: boolean }} Ranked Without a metric it has failed. */
/**
 * @typedef {object} Column
 * @property {string} title
 * @property {Ranked[]} ranked
 * @property {Trial[]} training on their way here
 * @property {number | null} cut what the next one has to reach; null: none
 * @property {boolean} isLast
 */

const HEIGHT_PX = 300;
const [TOP_PX, BOTTOM_PX, LEFT_PX] = [28, 64, 56];
const LEAST_COLUMN_PX = 120;
const POINT_PX = 4;
const NEAR_PX = 10;
/** Of those without a metric: lines at the bottom. */
const LANES = { failed: HEIGHT_PX - 44, training: HEIGHT_PX - 18 };

/** The same trial is at the same place of each column, whatever others do. @param {string} id */
function sideways(id) {
  let hash = 7;
  for (const letter of id) hash = (hash * 31 + letter.charCodeAt(0)) % 9973;
  return 0.2 + (0.6 * hash) / 9973;
}

export const Rungs = component(
  /**
   * @param {object} props
   * @param {string} props.title
   * @param {string} [props.hint]
   * @param {Column[]} props.columns
   * @param {boolean} props.isLog
   * @param {boolean} props.smallerIsBetter
   * @param {() => import("./figure.js").Numbers} props.numbers
   */
  ({ title, hint, columns, isLog, smallerIsBetter, numbers }) => {
    const known = columns.flatMap(({ ranked, cut }) => [...ranked.map((one) => one.metric), cut]);
    const scale = scaleOf(known, { isLog });
    const at = (/** @type {number | null} */ place) => {
      if (place === null) return LANES.failed;
      const up = smallerIsBetter ? 1 - place : place;
      return HEIGHT_PX - BOTTOM_PX - up * (HEIGHT_PX - BOTTOM_PX - TOP_PX);
    };
    const down = (/** @type {number | null} */ metric) => at(scale.place(metric));
    const across = (/** @type {number} */ column, /** @type {string} */ id, /** @type {number} */ widthPx) =>
      LEFT_PX + (column + sideways(id)) * ((widthPx - LEFT_PX) / columns.length);
    const shape = JSON.stringify([columns, isLog, smallerIsBetter]);
    const { canvas, element, widthPx } = useCanvas(
      (sheet) => {
        labels(sheet, scale, at);
        paint(sheet, columns, { down, across });
      },
      [shape],
      {
        heightPx: HEIGHT_PX,
        leastPx: LEFT_PX + columns.length * LEAST_COLUMN_PX,
      },
      {
        onMouseMove: (event) => {
          const found = near(event);
          event.currentTarget.title = found?.title ?? "";
          event.currentTarget.classList.toggle("leads", found !== undefined);
        },
        onClick: (event) => {
          const found = near(event);
          if (found) go(found.href);
        },
      },
    );
    const near = (/** @type {{ offsetX: number, offsetY: number }} */ { offsetX, offsetY }) =>
      columns
        .flatMap(({ ranked, training }, column) => [
          ...ranked.map((one) => ({
            one,
            x: across(column, one.id, widthPx),
            y: down(one.metric),
          })),
          ...training.map((one) => ({
            one,
            x: across(column, one.id, widthPx),
            y: LANES.training,
          })),
        ])
        .map(({ one, x, y }) => ({
          one,
          far: Math.hypot(x - offsetX, y - offsetY),
        }))
        .filter(({ far }) => far < NEAR_PX)
        .sort((a, b) => a.far - b.far)[0]?.one;
    return Figure({
      title,
      hint,
      numbers,
      image: () => canvas.current,
      children: h(
        "div",
        {
          class: "scrolls",
          tabIndex: 0,
          role: "region",
          "aria-label": `${title}: drawing`,
        },
        element,
      ),
    });
  },
);

/**
 * @param {import("./canvas.js").Sheet} sheet
 * @param {import("./scale.js").Scale} scale
 * @param {(place: number | null) => number} at
 */
function labels({ pen, text }, scale, at) {
  pen.fillStyle = text;
  pen.textAlign = "right";
  for (const tick of scale.ticks(5)) pen.fillText(fitted(pen, tick.text, LEFT_PX - 12), LEFT_PX - 8, at(tick.at));
  pen.fillText("failed", LEFT_PX - 8, LANES.failed);
  pen.fillText("training", LEFT_PX - 8, LANES.training);
}

/**
 * @param {import("./canvas.js").Sheet} sheet
 * @param {Column[]} columns
 * @param {object} places
 * @param {(metric: number | null) => number} places.down
 * @param {(at: number, id: string, widthPx: number) => number} places.across
 */
function paint({ pen, widthPx, text, line, colour }, columns, { down, across }) {
  const [on, over] = [colour("--running"), colour("--completed")];
  const each = (widthPx - LEFT_PX) / columns.length;
  for (const [at, { ranked, training }] of columns.entries()) {
    const next = columns[at + 1];
    const places = new Map(next?.ranked.map((one) => [one.id, down(one.metric)]));
    for (const one of next?.training ?? []) places.set(one.id, LANES.training);
    pen.strokeStyle = on;
    pen.globalAlpha = 0.5;
    for (const one of ranked) {
      const end = places.get(one.id);
      if (!one.wentOn || end === undefined) continue;
      pen.beginPath();
      pen.moveTo(across(at, one.id, widthPx), down(one.metric));
      pen.lineTo(across(at + 1, one.id, widthPx), end);
      pen.stroke();
    }
    pen.globalAlpha = 1;
    for (const one of training) triangle(pen, across(at, one.id, widthPx), LANES.training, on);
  }
  for (const [at, { title, ranked, cut, isLast }] of columns.entries()) {
    const left = LEFT_PX + at * each;
    pen.strokeStyle = line;
    pen.strokeRect(left + 2.5, TOP_PX - 8.5, each - 5, HEIGHT_PX - TOP_PX);
    for (const one of ranked) {
      const here = one.wentOn ? on : isLast ? over : text;
      dot(pen, across(at, one.id, widthPx), down(one.metric), here, one.wentOn || isLast);
    }
    pen.fillStyle = text;
    pen.textAlign = "center";
    pen.fillText(fitted(pen, title, each - 8), left + each / 2, 10);
    if (cut === null) continue;
    pen.strokeStyle = text;
    pen.setLineDash([6, 4]);
    pen.beginPath();
    pen.moveTo(left + 4, down(cut));
    pen.lineTo(left + each - 4, down(cut));
    pen.stroke();
    pen.setLineDash([]);
    pen.textAlign = "left";
    pen.fillText(value(cut), left + 8, down(cut) - 8);
  }
}

/**
 * @param {CanvasRenderingContext2D} pen
 * @param {number} x
 * @param {number} y
 * @param {string} colour
 * @param {boolean} isFull
 */
function dot(pen, x, y, colour, isFull) {
  pen.fillStyle = colour;
  pen.strokeStyle = colour;
  pen.beginPath();
  pen.arc(x, y, POINT_PX, 0, 2 * Math.PI);
  if (isFull) pen.fill();
  else pen.stroke();
}

/** @param {CanvasRenderingContext2D} pen @param {number} x @param {number} y @param {string} colour */
function triangle(pen, x, y, colour) {
  pen.fillStyle = colour;
  pen.beginPath();
  pen.moveTo(x - POINT_PX, y + POINT_PX);
  pen.lineTo(x, y - POINT_PX);
  pen.lineTo(x + POINT_PX, y + POINT_PX);
  pen.fill();
}
