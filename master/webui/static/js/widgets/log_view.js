// A log: from its end back, following, searched by the master. Rows are drawn while they are in sight.

import { useLayoutEffect, useRef, useState } from "../../vendor/hooks.js";
import { count, fullTime, plain } from "../format.js";
import { classes, component, h } from "../html.js";
import { useLogLines } from "./log_lines.js";
import { Problem } from "./problem.js";
import { Typed } from "./typed.js";
import { rowsInSight } from "./virtual.js";

/** @typedef {import("./log_lines.js").Line} Line */

const ROW_PX = 18;
const NEAR_PX = 200;
const LEVELS = ["", "TRACE", "DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"];

/** @typedef {{ text: string, level: string }} Filter */

export const LogView = component(
  /**
   * @param {{ topic: string, label: string, read: (filter: Filter) => import("./log_lines.js").Read, filter: Filter,
   *   onFilter: (filter: Filter) => void, isOver: boolean }} props `isOver`: nothing comes any more
   */
  ({ topic, label, read, filter, onFilter, isOver }) => {
    const [follows, setFollows] = useState(true);
    const box = useRef(/** @type {HTMLDivElement | null} */ (null));
    const [view, setView] = useState({ scrollPx: 0, viewPx: 400 });
    const isAsking = useRef(false);
    const log = useLogLines(`${topic} ${filter.level} ${filter.text}`, read(filter), follows && !isOver);
    const total = log.lines.length;
    const sight = rowsInSight({ total, rowPx: ROW_PX, ...view });

    const look = async () => {
      const element = box.current;
      if (!element) return;
      setView({ scrollPx: element.scrollTop, viewPx: element.clientHeight });
      const isAtEnd = element.scrollHeight - element.scrollTop - element.clientHeight < 2 * ROW_PX;
      setFollows(isAtEnd);
      if (element.scrollTop > NEAR_PX || isAsking.current || log.isComplete || isAtEnd) return;
      isAsking.current = true;
      try {
        const added = await log.older();
        if (added) element.scrollTop += added * ROW_PX;
      } finally {
        isAsking.current = false;
      }
    };
    useLayoutEffect(() => {
      const element = box.current;
      if (!element) return;
      if (follows) element.scrollTop = element.scrollHeight;
      setView({ scrollPx: element.scrollTop, viewPx: element.clientHeight });
    }, [total, follows]);

    const shown = log.lines.slice(sight.first, sight.last);
    return h(
      "section",
      { class: "log" },
      h(
        "form",
        { class: "bar", onSubmit: (event) => event.preventDefault() },
        Typed({
          value: filter.text,
          onChange: (text) => onFilter({ ...filter, text }),
          attributes: { type: "search", placeholder: "Search in the log", "aria-label": "Search in the log" },
        }),
        h(
          "select",
          {
            "aria-label": "Level",
            value: filter.level,
            onChange: (event) => onFilter({ ...filter, level: event.currentTarget.value }),
          },
          LEVELS.map((level) => h("option", { key: level, value: level }, level || "all levels")),
        ),
        h(
          "label",
          null,
          h("input", {
            type: "checkbox",
            checked: follows,
            onChange: (event) => setFollows(event.currentTarget.checked),
          }),
          " follow",
        ),
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
          onScroll: look,
        },
        h(
          "div",
          { class: "log-tall", style: { height: `${sight.tall}px` } },
          shown.map((line, at) => LogRow({ key: line.id, line, top: sight.top(sight.first + at) })),
        ),
        log.isHere &&
          !total &&
          h("p", { class: "empty" }, filter.text || filter.level ? "No line is like that." : "No lines yet."),
      ),
      h(
        "p",
        { class: "note", role: "status" },
        log.isHere
          ? `${count(total, "line")}${log.isComplete ? ", from the beginning" : "; scroll up for older ones"}`
          : "Loading…",
      ),
    );
  },
);

const LogRow = component(
  /** @param {{ line: Line, top: number }} props */
  ({ line, top }) =>
    h(
      "div",
      {
        class: classes("log-line", level(line)),
        style: { transform: `translateY(${top}px)` },
        title: fullTime(line.timestamp),
      },
      line.rankId !== null && h("span", { class: "rank" }, `[rank=${line.rankId}] `),
      plain(line.log),
    ),
);

/** @param {Line} line */
function level(line) {
  return line.level.replace("LOG_LEVEL_", "").toLowerCase();
}
