// A table of any length: rows are drawn while they are in sight, by windows of the master. A grid for screen readers.

import { useEffect, useLayoutEffect, useRef, useState } from "../../vendor/hooks.js";
import { classes, component, h } from "../html.js";
import { bind } from "../keys.js";
import { Problem } from "./problem.js";
import { useRowKeys } from "./row_keys.js";
import { rowsInSight, scrollTo } from "./virtual.js";

/** @typedef {import("../html.js").Children} Children */
/** @typedef {{ by: string, descending: boolean }} Sort */

/**
 * @template Row
 * @typedef {object} Column
 * @property {string} id
 * @property {string} title
 * @property {(row: Row) => Children} cell
 * @property {string} [sort] what the master calls its order
 * @property {string} [width] of a CSS grid; else an equal share
 * @property {boolean} [isNumber]
 * @property {boolean} [isMinor] not on phones
 * @property {string} [hint] what it counts
 */

/**
 * @template Row
 * @typedef {object} TableProps
 * @property {string} label
 * @property {Column<Row>[]} columns
 * @property {import("./windows.js").Source<Row>} source
 * @property {(row: Row) => string | number} rowKey
 * @property {(row: Row) => string} [link] the page of a row
 * @property {Sort} [sort]
 * @property {(sort: Sort) => void} [onSort]
 * @property {ReadonlySet<string | number>} [selected]
 * @property {(keys: Set<string | number>) => void} [onSelect]
 * @property {Children} empty what to do while there is nothing
 */

const ROW_PX = 28;
const CARD_LINE_PX = 24;
const PHONE = matchMedia("(max-width: 600px)");

/** @template Row @param {TableProps<Row>} props */
function drawTable(props) {
  const { columns, source, selected, onSelect } = props;
  const box = useRef(/** @type {HTMLDivElement | null} */ (null));
  const [view, setView] = useState({ scrollPx: 0, viewPx: 600 });
  const isPhone = useIsPhone();
  const rowPx = isPhone ? cardPx(columns) : ROW_PX;
  const total = source.total ?? 0;
  const sight = rowsInSight({ total, rowPx, ...view });
  const reveal = (/** @type {number} */ index) => {
    const scrollPx = scrollTo(index, { total, rowPx, ...view });
    if (scrollPx !== null && box.current) box.current.scrollTop = scrollPx;
  };
  const isFailed = source.error !== null && source.total === null;
  const hasGrid = !isFailed && source.total !== 0;
  const { active, keys, setActive } = useRowKeys({ ...props, total, reveal, pageRows: view.viewPx / rowPx });

  useLayoutEffect(() => bind(keys));
  useEffect(() => source.show(sight.first, sight.last));
  useLayoutEffect(() => {
    const element = box.current;
    if (!element) return;
    const look = () => setView({ scrollPx: element.scrollTop, viewPx: element.clientHeight });
    const resized = new ResizeObserver(look);
    resized.observe(element);
    element.addEventListener("scroll", look, { passive: true });
    return () => {
      resized.disconnect();
      element.removeEventListener("scroll", look);
    };
  }, [hasGrid]);

  const rows = [];
  for (let index = sight.first; index < sight.last; index += 1) {
    const row = source.row(index);
    rows.push(
      Row({
        key: index,
        row,
        index,
        top: sight.top(index),
        rowPx,
        table: props,
        isActive: index === active,
        activate: () => setActive(index),
      }),
    );
  }
  const widths = columns.map((column) => column.width ?? "minmax(80px, 1fr)").join(" ");
  if (source.error && isFailed) return Problem({ error: source.error, retry: source.refresh });
  if (!hasGrid) return h("div", { class: "empty" }, props.empty);
  const grid = {
    class: "table-grid",
    role: /** @type {const} */ ("grid"),
    tabIndex: 0,
    "aria-label": props.label,
    "aria-rowcount": source.total === null ? -1 : total + 1,
    "aria-colcount": columns.length + (onSelect ? 1 : 0),
    "aria-busy": source.total === null,
    "aria-multiselectable": Boolean(onSelect),
    "aria-activedescendant": active === null ? undefined : rowId(props.label, active),
    style: { "--columns": (onSelect ? "28px " : "") + widths },
  };
  const tall = {
    class: "table-tall",
    role: /** @type {const} */ ("presentation"),
    style: { height: `${sight.tall}px` },
  };
  return h(
    "div",
    { class: "table" },
    h(
      "div",
      grid,
      Head({ table: props }),
      h("div", { class: "table-rows", role: "rowgroup", ref: box, tabIndex: 0 }, h("div", tall, rows)),
    ),
    h("div", { class: "table-total", role: "status" }, totals(source.total, selected?.size ?? 0)),
  );
}

/** @type {<Row>(props: TableProps<Row>) => import("../html.js").Element} */
export const Table = component(drawTable);

/** The first has a line of its own, then two each; and space. @param {{ isMinor?: boolean }[]} columns */
function cardPx(columns) {
  const shown = columns.filter((column) => !column.isMinor).length;
  return CARD_LINE_PX * (2 + Math.ceil((shown - 1) / 2));
}

/** @param {string} label @param {number} index */
function rowId(label, index) {
  return `${label.replaceAll(/\W+/g, "-")}-${index}`;
}

/** @param {number | null} total @param {number} selected */
function totals(total, selected) {
  if (total === null) return "Loading…";
  return `${total.toLocaleString()} in all${selected ? `, ${selected.toLocaleString()} selected` : ""}`;
}

const Head = component(
  /** @template Row @param {{ table: TableProps<Row> }} props */
  ({ table: { columns, sort, onSort, onSelect } }) =>
    h(
      "div",
      { class: "table-head", role: "rowgroup" },
      h(
        "div",
        { class: "table-row", role: "row", "aria-rowindex": 1 },
        onSelect && h("span", { class: "cell", role: "columnheader" }, h("span", { class: "unseen" }, "Selected")),
        columns.map((column) => {
          const isSorted = sort !== undefined && sort.by === column.sort;
          const order = isSorted ? (sort.descending ? "descending" : "ascending") : "none";
          const press = () => onSort?.({ by: column.sort ?? "", descending: isSorted && !sort.descending });
          return h(
            "span",
            {
              key: column.id,
              role: "columnheader",
              title: column.hint,
              "aria-sort": column.sort && onSort ? order : undefined,
              class: classes("cell", column.isNumber && "number", column.isMinor && "minor"),
            },
            column.sort && onSort
              ? h(
                  "button",
                  { type: "button", class: "sort", onClick: press },
                  column.title,
                  h("span", { "aria-hidden": true }, isSorted ? (sort.descending ? " ↓" : " ↑") : ""),
                )
              : column.title,
          );
        }),
      ),
    ),
);

const Row = component(
  /**
   * @template Row
   * @param {object} props
   * @param {Row | undefined} props.row
   * @param {number} props.index
   * @param {number} props.top
   * @param {number} props.rowPx
   * @param {TableProps<Row>} props.table
   * @param {boolean} props.isActive
   * @param {() => void} props.activate
   */
  ({ row, index, top, rowPx, table, isActive, activate }) => {
    const { columns, selected, onSelect, rowKey, link } = table;
    const key = row === undefined ? "" : rowKey(row);
    const isSelected = selected?.has(key) ?? false;
    const toggle = () => {
      const keys = new Set(selected);
      if (!keys.delete(key)) keys.add(key);
      onSelect?.(keys);
    };
    return h(
      "div",
      {
        class: classes("table-row", isActive && "active", isSelected && "selected"),
        role: "row",
        id: rowId(table.label, index),
        "aria-rowindex": index + 2,
        "aria-selected": onSelect ? isSelected : undefined,
        onClick: activate,
        style: { transform: `translateY(${top}px)`, height: `${rowPx}px` },
      },
      onSelect &&
        h(
          "span",
          { class: "cell select", role: "gridcell" },
          h("input", {
            type: "checkbox",
            tabIndex: -1,
            checked: isSelected,
            onChange: toggle,
            disabled: row === undefined,
            "aria-label": `Select ${key}`,
          }),
        ),
      columns.map((column, at) => {
        const content = row === undefined ? (at ? "" : "…") : column.cell(row);
        return h(
          "span",
          {
            key: column.id,
            role: "gridcell",
            "data-title": column.title,
            class: classes("cell", at === 0 && "lead", column.isNumber && "number", column.isMinor && "minor"),
          },
          at === 0 && row !== undefined && link ? h("a", { href: link(row), tabIndex: -1 }, content) : content,
        );
      }),
    );
  },
);

function useIsPhone() {
  const [isPhone, setPhone] = useState(PHONE.matches);
  useEffect(() => {
    const look = () => setPhone(PHONE.matches);
    PHONE.addEventListener("change", look);
    return () => PHONE.removeEventListener("change", look);
  }, []);
  return isPhone;
}
