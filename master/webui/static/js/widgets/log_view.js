// A log: from its end back, or around a line, following. Rows are drawn while they are in sight.

import { useEffect, useLayoutEffect, useRef, useState } from "../../vendor/hooks.js";
import { count, fullTime } from "../format.js";
import { classes, component, h } from "../html.js";
import { say } from "../store.js";
import { useLogLines } from "./log_lines.js";
import { MOST_CHARACTERS, pieces, withoutOrders } from "./log_text.js";
import { Problem } from "./problem.js";
import { rowsInSight } from "./virtual.js";

/** @typedef {import("./log_lines.js").Line} Line */

const ROW_PX = 18;
const NEAR_PX = 400;
const LEVELS = ["", "TRACE", "DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"];

/** @typedef {{ level: string, ranks?: string }} Filter */

/**
 * @typedef {object} LogProps
 * @property {string} topic another one begins anew; the filter is part of it
 * @property {string} label
 * @property {import("./log_lines.js").Read} read
 * @property {Filter} filter
 * @property {(level: string) => void} onLevel
 * @property {boolean} isOver no more than the last lines may come
 * @property {import("./log_lines.js").Place | null} [place] what is shown; nothing: the end
 * @property {() => void} [onFollow] the end is wanted instead of the place
 * @property {(line: Line) => string} [link] of a line
 * @property {import("../html.js").Children} [tools] more in the bar
 */

export const LogView = component(
  /** @param {LogProps} props */
  ({ topic, label, read, filter, onLevel, isOver, place = null, onFollow, link, tools }) => {
    const [follows, setFollows] = useState(place === null);
    const box = useRef(/** @type {HTMLDivElement | null} */ (null));
    const [view, setView] = useState({ scrollPx: 0, viewPx: 400 });
    // The line at the top of the box, and how far: it stays there when lines come or go before it.
    const top = useRef({ id: "", px: 0, isMoved: false });
    const log = useLogLines(topic, read, { place, follows, isOver });
    const lines = log.here?.lines ?? [];
    const total = lines.length;
    const sight = rowsInSight({ total, rowPx: ROW_PX, ...view });
    const named = (/** @type {Line} */ line) => place !== null && (line.number === place.line || line.id === place.id);

    const look = () => {
      const element = box.current;
      if (!element || !log.here) return;
      const { scrollTop, scrollHeight, clientHeight } = element;
      setView({ scrollPx: scrollTop, viewPx: clientHeight });
      const at = Math.floor(scrollTop / ROW_PX);
      top.current = { ...top.current, id: lines[at]?.id ?? "", px: scrollTop - at * ROW_PX };
      if (scrollTop < NEAR_PX) log.older();
      if (scrollHeight - scrollTop - clientHeight < NEAR_PX) log.newer();
    };
    const moved = () => void (top.current.isMoved = true);
    const scrolled = () => {
      const element = box.current;
      if (!element) return;
      const isAtEnd = element.scrollHeight - element.scrollTop - element.clientHeight < 2 * ROW_PX;
      if (log.here?.isEnd && isAtEnd !== follows && (isAtEnd || view.scrollPx > element.scrollTop)) setFollows(isAtEnd);
      look();
    };
    useEffect(() => setFollows(place === null), [JSON.stringify(place)]);
    /** To the line that was asked for, until somebody scrolls, or to the end; else what was in sight stays there. */
    const settle = () => {
      const element = box.current;
      if (!element || !log.here) return;
      const asked = place && !top.current.isMoved ? indexOf(lines, place) : -1;
      const same = lines.findIndex((line) => line.id === top.current.id);
      if (asked >= 0) element.scrollTop = asked * ROW_PX - element.clientHeight / 2;
      else if (follows) element.scrollTop = element.scrollHeight;
      else if (same >= 0) element.scrollTop = same * ROW_PX + top.current.px;
      look();
    };
    useLayoutEffect(() => void (top.current.isMoved = false), [topic, JSON.stringify(place)]);
    useLayoutEffect(settle, [log.here, follows]);
    const settled = useRef(settle);
    settled.current = settle;
    useLayoutEffect(() => {
      const resized = new ResizeObserver(() => settled.current());
      if (box.current) resized.observe(box.current);
      return () => resized.disconnect();
    }, []);

    const follow = (/** @type {boolean} */ wanted) => {
      setFollows(wanted);
      if (!wanted) return;
      if (place) onFollow?.();
      else if (!log.here?.isEnd) log.toEnd();
    };
    const copy = async () => {
      try {
        await navigator.clipboard.writeText(lines.map((line) => `${withoutOrders(line.log)}\n`).join(""));
        say(`${count(total, "line")} copied.`);
      } catch {
        say("This browser does not let pages copy here: select the text.", "problem");
      }
    };
    return h(
      "section",
      { class: "log" },
      h(
        "div",
        { class: "bar" },
        tools,
        h(
          "select",
          { "aria-label": "Level", value: filter.level, onChange: (event) => onLevel(event.currentTarget.value) },
          LEVELS.map((level) => h("option", { key: level, value: level }, level || "all levels")),
        ),
        h(
          "label",
          null,
          h("input", {
            type: "checkbox",
            checked: follows,
            onChange: (event) => follow(event.currentTarget.checked),
          }),
          " follow",
        ),
        h("button", { type: "button", class: "plain", onClick: copy, disabled: !total }, "copy what is here"),
      ),
      log.error && Problem({ error: log.error }),
      h(
        "div",
        {
          class: "log-lines",
          ref: box,
          tabIndex: 0,
          role: "log",
          "aria-label": label,
          "aria-live": "off",
          onScroll: scrolled,
          onWheel: moved,
          onTouchMove: moved,
          onPointerDown: moved,
          onKeyDown: moved,
        },
        h(
          "div",
          { class: "log-tall", style: { height: `${sight.tall}px` } },
          lines
            .slice(sight.first, sight.last)
            .map((line, at) =>
              LogRow({ key: line.id, line, top: sight.top(sight.first + at), link, isNamed: named(line) }),
            ),
        ),
        log.here &&
          !total &&
          h("p", { class: "empty" }, filter.ranks || filter.level ? "No line is like that." : "No lines yet."),
      ),
      h("p", { class: "note", role: "status" }, log.here ? extent(log.here) : "Loading…"),
    );
  },
);

const LogRow = component(
  /** @param {{ line: Line, top: number, link: LogProps["link"], isNamed: boolean }} props */
  ({ line, top, link, isNamed }) =>
    h(
      "div",
      {
        class: classes("log-line", level(line), isNamed && "named"),
        style: { transform: `translateY(${top}px)` },
        title: fullTime(line.timestamp),
        "aria-current": isNamed ? "true" : undefined,
      },
      link &&
        line.number !== undefined &&
        h(
          "a",
          { class: "line-number", href: link(line), tabIndex: -1, "aria-label": `Line ${line.number}` },
          line.number,
        ),
      line.rankId !== null && h("span", { class: "rank" }, `[rank=${line.rankId}] `),
      h("span", { class: "log-text" }, LogText({ line: line.log })),
    ),
);

/** A line, or the beginning of a very long one. */
export const LogText = component(
  /** @param {{ line: string }} props */
  ({ line }) => [
    ...pieces(line).map(({ text, style }, at) => h("span", { key: at, class: style || undefined }, text)),
    line.length > MOST_CHARACTERS &&
      h("span", { class: "odd", key: "more" }, `${count(line.length - MOST_CHARACTERS, "more character")}`),
  ],
);

/** @param {Line[]} lines @param {import("./log_lines.js").Place} place */
function indexOf(lines, { line, id, time }) {
  if (id) return lines.findIndex((one) => one.id === id);
  if (line) {
    const found = lines.findIndex((one) => (one.number ?? 0) >= line);
    return found < 0 ? lines.length - 1 : found;
  }
  return time ? lines.findIndex((one) => Date.parse(one.timestamp) >= Date.parse(time)) : -1;
}

/** @param {import("./log_lines.js").Here} here */
function extent({ lines, total, isStart, isEnd }) {
  const [first, last] = [lines[0]?.number, lines.at(-1)?.number];
  if (first === undefined || last === undefined || (isStart && isEnd)) return count(lines.length, "line");
  return `Lines ${first.toLocaleString()} to ${last.toLocaleString()} of ${total.toLocaleString()}`;
}

/** @param {Line} line */
function level(line) {
  return line.level.replace("LOG_LEVEL_", "").toLowerCase();
}
