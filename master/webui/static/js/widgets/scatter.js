// A point for each row, by two quantities. Dragging a box chooses ranges of both; a click opens what a point is of.

import { useRef, useState } from "../../vendor/hooks.js";
import { component, h } from "../html.js";
import { go } from "../router.js";
import { fitted, shade, useCanvas } from "./canvas.js";
import { Figure } from "./figure.js";

/** @typedef {import("./parallel.js").Axis} Axis */
/** @typedef {{ x: number, y: number }} Point */

const HEIGHT_PX = 300;
const [LEFT_PX, RIGHT_PX, TOP_PX, BOTTOM_PX] = [64, 16, 12, 44];
const POINT_PX = 3;
const NEAR_PX = 10;
const CLICK_PX = 4;
const TICK_PX = 90;

export const Scatter = component(
  /**
   * @param {object} props
   * @param {string} props.title
   * @param {string} [props.hint]
   * @param {Axis} props.x
   * @param {Axis} props.y
   * @param {import("./parallel.js").Shares} props.shares
   * @param {boolean[]} props.within which rows are in all ranges
   * @param {(row: number) => { title: string, href: string }} props.about
   * @param {(ranges: Record<string, import("./scale.js").Range | null>) => void} props.onRanges
   * @param {() => import("./figure.js").Numbers} props.numbers
   */
  ({ title, hint, x, y, shares, within, about, onRanges, numbers }) => {
    const [box, setBox] = useState(/** @type {{ from: Point, to: Point } | null} */ (null));
    const pressed = useRef(/** @type {Point | null} */ (null));
    const { canvas, element, widthPx } = useCanvas(
      (sheet) => paint(sheet, x, y, shares, within),
      [x, y, shares, within],
      { heightPx: HEIGHT_PX },
    );
    const spot = (/** @type {number} */ row) => placeOf(x, y, row, widthPx);
    const at = (/** @type {PointerEvent} */ event) => {
      const place = canvas.current?.getBoundingClientRect();
      return { x: event.clientX - (place?.left ?? 0), y: event.clientY - (place?.top ?? 0) };
    };
    const near = (/** @type {Point} */ here) => {
      let found = -1;
      let least = NEAR_PX;
      for (let row = 0; row < within.length; row += 1) {
        const there = spot(row);
        const far = there && within[row] ? Math.hypot(there.x - here.x, there.y - here.y) : Infinity;
        if (far < least) [found, least] = [row, far];
      }
      return found < 0 ? null : about(found);
    };
    const start = (/** @type {PointerEvent} */ event) => {
      if (event.button) return;
      if (event.currentTarget instanceof Element) event.currentTarget.setPointerCapture(event.pointerId);
      pressed.current = at(event);
    };
    const move = (/** @type {PointerEvent} */ event) => {
      const here = at(event);
      if (pressed.current) setBox({ from: pressed.current, to: here });
      else if (canvas.current) {
        const found = near(here);
        canvas.current.title = found?.title ?? "";
        canvas.current.classList.toggle("leads", found !== null);
      }
    };
    const end = (/** @type {PointerEvent} */ event) => {
      const from = pressed.current;
      pressed.current = null;
      setBox(null);
      if (!from) return;
      const to = at(event);
      if (Math.hypot(from.x - to.x, from.y - to.y) < CLICK_PX) {
        const found = near(to);
        if (found) go(found.href);
        return;
      }
      const across = [from.x, to.x].map((one) => share(one, LEFT_PX, widthPx - RIGHT_PX));
      const up = [from.y, to.y].map((one) => 1 - share(one, TOP_PX, HEIGHT_PX - BOTTOM_PX));
      onRanges({ [x.id]: rangeOf(x, across), [y.id]: rangeOf(y, up) });
    };
    return Figure({
      title,
      hint,
      numbers,
      image: () => canvas.current,
      children: h(
        "div",
        {
          class: "brushed",
          onPointerDown: start,
          onPointerMove: move,
          onPointerUp: end,
          onPointerCancel: () => {
            pressed.current = null;
            setBox(null);
          },
        },
        element,
        box &&
          h("div", {
            class: "brush",
            style: {
              left: `${Math.min(box.from.x, box.to.x)}px`,
              top: `${Math.min(box.from.y, box.to.y)}px`,
              width: `${Math.abs(box.from.x - box.to.x)}px`,
              height: `${Math.abs(box.from.y - box.to.y)}px`,
            },
          }),
      ),
    });
  },
);

/** @param {number} at @param {number} from @param {number} to */
function share(at, from, to) {
  return Math.max(0, Math.min(1, (at - from) / (to - from)));
}

/** @param {Axis} axis @param {number[]} places */
function rangeOf({ scale }, places) {
  const range = scale.range(Math.min(...places), Math.max(...places));
  return range.length ? range : null;
}

/** @param {Axis} x @param {Axis} y @param {number} row @param {number} widthPx @returns {Point | null} */
function placeOf(x, y, row, widthPx) {
  const [across, up] = [x.scale.place(x.values[row]), y.scale.place(y.values[row])];
  if (across === null || up === null) return null;
  return {
    x: LEFT_PX + across * (widthPx - LEFT_PX - RIGHT_PX),
    y: HEIGHT_PX - BOTTOM_PX - up * (HEIGHT_PX - BOTTOM_PX - TOP_PX),
  };
}

/**
 * @param {import("./canvas.js").Sheet} sheet
 * @param {Axis} x
 * @param {Axis} y
 * @param {import("./parallel.js").Shares} shares
 * @param {boolean[]} within
 */
function paint({ pen, widthPx, text, line }, x, y, shares, within) {
  const [bottom, right] = [HEIGHT_PX - BOTTOM_PX, widthPx - RIGHT_PX];
  pen.fillStyle = text;
  pen.strokeStyle = line;
  pen.strokeRect(LEFT_PX - 4.5, TOP_PX - 4.5, right - LEFT_PX + 9, bottom - TOP_PX + 9);
  const most = Math.max(2, Math.floor((right - LEFT_PX) / TICK_PX));
  pen.textAlign = "center";
  for (const { at, text: words } of x.scale.ticks(most)) {
    pen.fillText(fitted(pen, words, TICK_PX), LEFT_PX + at * (right - LEFT_PX), bottom + 16);
  }
  pen.fillText(fitted(pen, x.title, right - LEFT_PX), (LEFT_PX + right) / 2, bottom + 34);
  pen.textAlign = "right";
  for (const { at, text: words } of y.scale.ticks(6)) {
    pen.fillText(fitted(pen, words, LEFT_PX - 12), LEFT_PX - 8, bottom - at * (bottom - TOP_PX));
  }
  for (const chosen of [false, true]) {
    for (let row = within.length - 1; row >= 0; row -= 1) {
      const spot = within[row] === chosen ? placeOf(x, y, row, widthPx) : null;
      if (!spot) continue;
      const best = shares[row];
      pen.fillStyle = !chosen ? line : best === null || best === undefined ? text : shade(best);
      pen.beginPath();
      pen.arc(spot.x, spot.y, POINT_PX, 0, 2 * Math.PI);
      pen.fill();
    }
  }
}
