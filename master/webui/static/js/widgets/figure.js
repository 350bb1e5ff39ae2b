// The frame of every chart: its title, the chart, its numbers as a table for screen readers, and both as files.

import { useState } from "../../vendor/hooks.js";
import { value } from "../format.js";
import { component, h } from "../html.js";
import { saveCsv, savePng } from "./download.js";

/** @typedef {import("../html.js").Children} Children */
/** @typedef {{ head: string[], rows: unknown[][], links?: (string | undefined)[] }} Numbers Links of first cells. */

const MOST_LISTED = 50;

export const Figure = component(
  /**
   * @param {object} props
   * @param {string} props.title
   * @param {string} [props.hint] what it shows
   * @param {string[]} [props.notes]
   * @param {() => Numbers} props.numbers what is listed
   * @param {() => unknown[][]} [props.data] what is saved, the names of its columns first; else the numbers
   * @param {() => HTMLCanvasElement | null | undefined} [props.image]
   * @param {Children} props.children
   */
  ({ title, hint, notes = [], numbers, data, image, children }) => {
    const csv = () => {
      const { head, rows } = numbers();
      saveCsv(title, data ? data() : [head, ...rows]);
    };
    const png = () => {
      const drawn = image?.();
      if (drawn) savePng(title, drawn);
    };
    return h(
      "figure",
      { class: "chart" },
      h("figcaption", { title: hint }, title),
      children,
      notes.map((note) => h("p", { key: note, class: "note" }, note)),
      h(
        "div",
        { class: "chart-foot" },
        Listed({ title, numbers }),
        image &&
          h("button", { type: "button", class: "plain", onClick: png, "aria-label": `Save ${title} as PNG` }, "PNG"),
        h("button", { type: "button", class: "plain", onClick: csv, "aria-label": `Save ${title} as CSV` }, "CSV"),
      ),
    );
  },
);

const Listed = component(
  /** @param {{ title: string, numbers: () => Numbers }} props */
  ({ title, numbers }) => {
    const [isOpen, setOpen] = useState(false);
    return h(
      "details",
      { onToggle: (event) => setOpen(event.currentTarget.open) },
      h("summary", null, "Numbers"),
      isOpen && NumberTable({ title, ...numbers() }),
    );
  },
);

const NumberTable = component(
  /** @param {Numbers & { title: string }} props */
  ({ title, head, rows, links = [] }) =>
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
            head.map((name, at) => h("th", { key: at, scope: "col" }, name)),
          ),
        ),
        h(
          "tbody",
          null,
          rows.slice(0, MOST_LISTED).map(([first, ...rest], at) => {
            const name = value(first);
            return h(
              "tr",
              { key: at },
              h("th", { scope: "row" }, links[at] ? h("a", { href: links[at] }, name) : name),
              rest.map((one, index) => h("td", { key: index }, value(one))),
            );
          }),
        ),
      ),
      rows.length > MOST_LISTED &&
        h("p", { class: "note" }, `The first ${MOST_LISTED} of ${rows.length.toLocaleString()}: CSV has them all.`),
    ),
);
