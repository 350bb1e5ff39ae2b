// Lines of a log by time, and hits among them. A click, or Enter, goes to a part of time.

import { useState } from "../../vendor/hooks.js";
import { count, time } from "../format.js";
import { component, h } from "../html.js";

/** @typedef {import("../store.js").Schemas["LogCountsReply"]} Counts */

const TALL_PX = 40;

export const LogHistogram = component(
  /** @param {{ counts: Counts, hits: Map<string, number>, onTime: (moment: string) => void }} props */
  ({ counts: { counts, bucketS }, hits, onTime }) => {
    const [chosen, choose] = useState(-1);
    const [first, last] = [counts[0], counts.at(-1)];
    if (!first || !last) return null;
    const place = (/** @type {string} */ start) =>
      Math.floor((Date.parse(start) - Date.parse(first.start)) / 1000 / bucketS);
    // The log may have grown since it was searched, and its parts of time with it.
    const found = new Map();
    for (const [start, lines] of hits) found.set(place(start), (found.get(place(start)) ?? 0) + lines);
    const bars = place(last.start) + 1;
    const most = counts.reduce((highest, { lines }) => Math.max(highest, lines), 1);
    const at = Math.min(chosen, counts.length - 1);
    const told = Math.max(0, at);
    const tell = (/** @type {number} */ index) => {
      const { start, lines } = counts[index] ?? first;
      const here = found.get(place(start));
      return `${time(start)}: ${count(lines, "line")}${here ? `, ${count(here, "hit")}` : ""}`;
    };
    const go = (/** @type {number} */ index) => {
      choose(index);
      onTime((counts[index] ?? first).start);
    };
    /** @type {Record<string, number>} */
    const moves = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: counts.length - 1 };
    const press = (/** @type {KeyboardEvent} */ event) => {
      if (event.key === "Enter") go(told);
      const to = moves[event.key];
      if (to !== undefined) choose(Math.max(0, Math.min(counts.length - 1, to)));
      if (to !== undefined || event.key === "Enter") event.preventDefault();
    };
    return h(
      "div",
      {
        class: "log-histogram",
        role: "slider",
        tabIndex: 0,
        "aria-label": "Lines by time; Enter goes there",
        "aria-valuemin": 0,
        "aria-valuemax": counts.length - 1,
        "aria-valuenow": told,
        "aria-valuetext": tell(told),
        onKeyDown: press,
      },
      counts.map(({ start, lines }, index) =>
        h(
          "div",
          {
            key: start,
            class: "log-bucket",
            title: tell(index),
            style: { left: `${(100 * place(start)) / bars}%`, width: `${100 / bars}%` },
            onClick: () => go(index),
          },
          h("div", {
            class: index === at ? "log-bar chosen" : "log-bar",
            style: { height: `${Math.max(2, (TALL_PX * lines) / most)}px` },
          }),
          found.has(place(start)) && h("div", { class: "log-bar hits" }),
        ),
      ),
    );
  },
);
