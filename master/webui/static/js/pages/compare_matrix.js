// Settings of runs beside each other: a row for each setting, a column for each run.

import { plain, value } from "../format.js";
import { component, h } from "../html.js";

/** @typedef {{ value: unknown }} Held */
/**
 * @typedef {object} MatrixRow
 * @property {string} name
 * @property {(Held | null)[]} values one for each run; null: it has none
 */

export const Matrix = component(
  /**
   * @param {object} props
   * @param {string} props.label
   * @param {{ key: number, title: string, href: string }[]} props.runs
   * @param {MatrixRow[]} props.rows
   */
  ({ label, runs, rows }) =>
    h(
      "div",
      { class: "scrolls", tabIndex: 0, role: "region", "aria-label": label },
      h(
        "table",
        { class: "matrix" },
        h(
          "thead",
          null,
          h(
            "tr",
            null,
            h("th", { scope: "col" }, "Name"),
            runs.map(({ key, title, href }) => h("th", { key, scope: "col" }, h("a", { href }, title))),
          ),
        ),
        h(
          "tbody",
          null,
          rows.map(({ name, values }) =>
            h(
              "tr",
              { key: name },
              h("th", { scope: "row" }, name),
              values.map((one, at) =>
                h("td", { key: at, class: isSame(one, values[0] ?? null) ? "" : "other" }, shown(one)),
              ),
            ),
          ),
        ),
      ),
    ),
);

/** Nothing is not the same as null. @param {Held | null} one */
function shown(one) {
  if (one === null) return h("span", { class: "note" }, "not set");
  return one.value === null ? "null" : plain(value(one.value));
}

/** @param {Held | null} one @param {Held | null} other */
export function isSame(one, other) {
  return JSON.stringify(one) === JSON.stringify(other);
}

/**
 * Objects by the paths of what they hold; lists are values.
 *
 * @param {Record<string, unknown>} held
 * @param {string} [above]
 * @returns {[string, unknown][]}
 */
export function leaves(held, above = "") {
  return Object.entries(held).flatMap(([key, one]) => {
    const isSection = typeof one === "object" && one !== null && !Array.isArray(one) && Object.keys(one).length > 0;
    const path = above ? `${above}.${key}` : key;
    return isSection ? leaves(/** @type {Record<string, unknown>} */ (one), path) : [[path, one]];
  });
}
