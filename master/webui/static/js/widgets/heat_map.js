// A table of two quantities whose cells are coloured by a third: the numbers stand in it.

import { component, h } from "../html.js";
import { Figure } from "./figure.js";

/** @typedef {{ text: string, share: number | null, hint: string }} Cell `share`: from 0, the best, to 1 */

const STRONGEST = 45;

export const HeatMap = component(
  /**
   * @param {object} props
   * @param {string} props.title
   * @param {string} [props.hint]
   * @param {string[]} [props.notes]
   * @param {string} props.acrossTitle
   * @param {string} props.downTitle
   * @param {string[]} props.columns
   * @param {string[]} props.rows
   * @param {(row: number, column: number) => Cell | null} props.cell null: there is nothing
   * @param {(row: number, column: number) => void} [props.onPick]
   */
  ({ title, hint, notes, acrossTitle, downTitle, columns, rows, cell, onPick }) => {
    const numbers = () => ({
      head: [`${downTitle} \\ ${acrossTitle}`, ...columns],
      rows: rows.map((name, row) => [name, ...columns.map((_, column) => cell(row, column)?.text ?? "")]),
    });
    return h(
      "div",
      { class: "heat" },
      Figure({
        title,
        hint,
        notes,
        numbers,
        children: h(
          "div",
          { class: "scrolls", tabIndex: 0, role: "region", "aria-label": `${title}: cells` },
          h(
            "table",
            { "aria-label": title },
            h("caption", null, `across: ${acrossTitle}, down: ${downTitle}`),
            h(
              "thead",
              null,
              h(
                "tr",
                null,
                h("td", null),
                columns.map((name, at) => h("th", { key: at, scope: "col" }, name)),
              ),
            ),
            h(
              "tbody",
              null,
              rows.map((name, row) =>
                h(
                  "tr",
                  { key: row },
                  h("th", { scope: "row" }, name),
                  columns.map((_, column) =>
                    Square({ key: column, cell: cell(row, column), pick: onPick && (() => onPick(row, column)) }),
                  ),
                ),
              ),
            ),
          ),
        ),
      }),
    );
  },
);

const Square = component(
  /** @param {{ cell: Cell | null, pick: (() => void) | undefined }} props */
  ({ cell, pick }) => {
    if (!cell) return h("td", { class: "number" });
    const { text, share, hint } = cell;
    const strength = share === null ? 0 : Math.round(Math.abs(share - 0.5) * 2 * STRONGEST);
    const colour = share !== null && share > 0.5 ? "var(--heat-worst)" : "var(--heat-best)";
    const style = { backgroundColor: `color-mix(in srgb, ${colour} ${strength}%, var(--bg))` };
    return h(
      "td",
      { class: "number", title: hint, style },
      pick ? h("button", { type: "button", class: "plain", onClick: pick, title: hint }, text) : text,
    );
  },
);
