// A table of few rows, all in the page, with buttons in them; on phones each row is a card.

import { component, h } from "../html.js";

/** @typedef {import("../html.js").Children} Children */

/**
 * @template Row
 * @typedef {object} ShortColumn
 * @property {string} title
 * @property {(row: Row) => Children} cell
 * @property {boolean} [isNumber]
 * @property {string} [hint] what it counts
 */

/**
 * @template Row
 * @typedef {object} ShortTableProps
 * @property {string} label
 * @property {ShortColumn<Row>[]} columns
 * @property {Row[]} rows
 * @property {(row: Row) => string | number} rowKey
 * @property {Children} empty what to do while there is nothing
 */

/** @template Row @param {ShortTableProps<Row>} props */
function drawShortTable({ label, columns, rows, rowKey, empty }) {
  if (!rows.length) return h("p", { class: "empty" }, empty);
  return h(
    "div",
    { class: "scrolls" },
    h(
      "table",
      { class: "short", "aria-label": label },
      h(
        "thead",
        null,
        h(
          "tr",
          null,
          columns.map(({ title, isNumber, hint }) =>
            h("th", { key: title, scope: "col", class: isNumber ? "number" : "", title: hint }, title),
          ),
        ),
      ),
      h(
        "tbody",
        null,
        rows.map((row) =>
          h(
            "tr",
            { key: rowKey(row) },
            columns.map(({ title, cell, isNumber }) =>
              h("td", { key: title, class: isNumber ? "number" : "", "data-title": title }, cell(row)),
            ),
          ),
        ),
      ),
    ),
  );
}

/** @type {<Row>(props: ShortTableProps<Row>) => import("../html.js").Element} */
export const ShortTable = component(drawShortTable);
