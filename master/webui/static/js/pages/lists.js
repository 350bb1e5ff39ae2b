// What the lists of experiments and of runs share: a filter, an order and columns, all in the address.

import { useState } from "../../vendor/hooks.js";
import { ApiError } from "../api.js";
import { value } from "../format.js";
import { component, group, h } from "../html.js";
import { useLive } from "../live.js";
import { address, choose } from "../router.js";
import { ColumnChooser } from "../widgets/column_chooser.js";
import { quoted } from "../widgets/completions.js";
import { FilterField, FilterProblem } from "../widgets/filter_field.js";

/** @typedef {import("../widgets/completions.js").Word} Word */
/**
 * @template Row
 * @typedef {import("../widgets/table.js").Column<Row>} Column
 */
/** @typedef {{ filter: string, archived: boolean, sort: string, columns: string[] | null }} Chosen */

/** Of hyperparameters, metrics and metadata: as many as the master gives with a row. */
export const MOST_COLUMNS = 50;
const WORDS_EVERY_MS = 60_000;
const NAMED = /^(hp|metric|metadata)\./;

/** @returns {Chosen} */
export function chosenOfList() {
  const { query } = address.value;
  const columns = query.get("columns");
  return {
    filter: query.get("filter") ?? formerFilter(query),
    archived: query.get("archived") === "1",
    sort: query.get("sort") ?? "",
    columns: columns === null ? null : columns.split(",").filter(Boolean).map(decodeURIComponent),
  };
}

/** Columns as the address has them. @param {string[] | null} ids null: the usual ones */
export function columnsWord(ids) {
  return ids && (ids.map(encodeURIComponent).join(",") || "name");
}

/** Addresses of before had a part of the name, and a state. @param {URLSearchParams} query */
function formerFilter(query) {
  const [name, state] = [query.get("name"), query.get("state")];
  return [name && `name ~ ${quoted(name)}`, state && `state = ${quoted(state)}`].filter(Boolean).join(" and ");
}

/** `-started`: descending. @param {string} sort */
export function sortOf(sort) {
  return { by: sort.replace(/^-/, ""), descending: sort.startsWith("-") };
}

/**
 * The columns that are shown, and the words that the master is asked for.
 *
 * @template Row
 * @param {Column<Row>[]} known the first one is always there
 * @param {string[]} usual
 * @param {Chosen} chosen
 * @param {(row: Row) => unknown[]} valuesOf
 */
export function columnsOf(known, usual, chosen, valuesOf) {
  const ids = chosen.columns ?? usual;
  const shown = known.filter((column, index) => index === 0 || ids.includes(column.id));
  const words = ids.filter((id) => NAMED.test(id)).slice(0, MOST_COLUMNS);
  /** @type {Column<Row>[]} */
  const named = words.map((id, index) => ({
    id,
    title: id.replace(/^(metric|hp)\./, ""),
    hint: id,
    sort: id,
    isNumber: true,
    isMinor: true,
    width: "minmax(90px, 1fr)",
    cell: (row) => shownValue(valuesOf(row)[index]),
  }));
  return { columns: [...shown, ...named], words };
}

/** A search space is shown by its bounds or its choices. @param {unknown} one */
function shownValue(one) {
  if (typeof one !== "object" || one === null || !("type" in one)) return value(one);
  const { minval, maxval, vals } = /** @type {Record<string, unknown>} */ (one);
  if (Array.isArray(vals)) return vals.map(value).join(" | ");
  return minval === undefined ? value(one) : `${value(minval)} … ${value(maxval)}`;
}

/** @param {Error | null} error */
export function isOfFilter(error) {
  return error instanceof ApiError && error.place !== null;
}

/**
 * Words for filters and columns, once they are wanted.
 *
 * @param {string} topic
 * @param {(signal: AbortSignal) => Promise<Word[]>} read
 */
export function useWords(topic, read) {
  const [isWanted, setWanted] = useState(false);
  const live = useLive(`me: words ${isWanted} ${topic}`, async (signal) => (isWanted ? read(signal) : null), {
    everyMs: WORDS_EVERY_MS,
    isOver: (data) => data === null,
  });
  return { words: live.data, want: () => setWanted(true) };
}

/** The field, the box for archived ones, and the button for columns. */
export const ListBar = component(
  /**
   * @param {object} props
   * @param {Chosen} props.chosen
   * @param {{ words: Word[] | null, want: () => void }} props.words
   * @param {() => void} props.onColumns
   */
  ({ chosen, words, onColumns }) =>
    h(
      "form",
      { class: "bar list-bar", onSubmit: (event) => event.preventDefault() },
      FilterField({
        value: chosen.filter,
        words: words.words ?? [],
        onFocus: words.want,
        onChange: (filter) => choose({ filter, name: "", state: "" }),
      }),
      h(
        "label",
        null,
        h("input", {
          type: "checkbox",
          checked: chosen.archived,
          onChange: (event) => choose({ archived: event.currentTarget.checked ? "1" : "" }),
        }),
        " archived too",
      ),
      h("button", { type: "button", class: "plain", onClick: onColumns }, "Columns (e)"),
    ),
);

/** What lies under the bar: why a filter is not understood, and the dialog for columns. */
export const UnderBar = component(
  /**
   * @param {object} props
   * @param {Chosen} props.chosen
   * @param {Error | null} props.error
   * @param {{ id: string, title: string }[]} props.known
   * @param {string[]} props.usual
   * @param {Word[] | null} props.words
   * @param {boolean} props.isChoosing
   * @param {() => void} props.onClose
   */
  ({ chosen, error, known, usual, words, isChoosing, onClose }) =>
    group(
      FilterProblem({ text: chosen.filter, error }),
      isChoosing &&
        ColumnChooser({
          known: known.slice(1),
          named: words?.filter((word) => NAMED.test(word.name)).map(({ name }) => ({ id: name, title: name })) ?? null,
          chosen: chosen.columns ?? usual,
          most: MOST_COLUMNS,
          onChoose: (ids) => choose({ columns: columnsWord(ids) }),
          onClose,
        }),
    ),
);
