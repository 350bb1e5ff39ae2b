// Amounts over days as bars, each divided into parts that are told apart by colour.

import { component, group, h } from "../html.js";
import { Figure } from "./figure.js";

/** @typedef {{ name: string, amount: number }} Part */
/** @typedef {{ name: string, parts: Part[] }} Bar `name`: of the day */

const COLOURS = 7;
const [WIDTH, HEIGHT, GAP] = [24, 160, 4];

export const StackedBars = component(
  /**
   * @param {object} props
   * @param {string} props.title
   * @param {string[]} props.names of the parts, in the order in which they lie on each other
   * @param {Bar[]} props.bars
   * @param {(amount: number) => string} props.said
   */
  ({ title, names, bars, said }) => {
    const most = Math.max(...bars.map(heightOf), 0);
    const width = Math.max(1, bars.length) * (WIDTH + GAP);
    const highest = Math.max(...bars.map(sumOf), 0);
    return Figure({
      title,
      numbers: () => ({
        head: ["Day", ...names, "All"],
        rows: bars.map((bar) => [bar.name, ...names.map((name) => amountOf(bar, name)), sumOf(bar)]),
      }),
      children: group(
        h(
          "div",
          { class: "scrolls", tabIndex: 0, role: "region", "aria-label": `${title}, as bars` },
          h(
            "svg",
            { width, height: HEIGHT, viewBox: `0 0 ${width} ${HEIGHT}`, role: "img", "aria-label": title },
            bars.map((bar, at) => Stack({ key: bar.name, bar, names, left: at * (WIDTH + GAP), most, said })),
          ),
        ),
        h(
          "p",
          { class: "note" },
          bars.length > 0 && `${bars[0]?.name} to ${bars.at(-1)?.name}; the highest is ${said(highest)}. `,
          names.map((name, at) =>
            h(
              "span",
              { key: name, class: "bars-legend" },
              h("span", { class: `part part-${at % COLOURS}` }),
              ` ${name} `,
            ),
          ),
        ),
      ),
    });
  },
);

const Stack = component(
  /**
   * @param {object} props
   * @param {Bar} props.bar
   * @param {string[]} props.names
   * @param {number} props.left
   * @param {number} props.most
   * @param {(amount: number) => string} props.said
   */
  ({ bar, names, left, most, said }) => {
    let top = HEIGHT;
    return h(
      "g",
      null,
      names.map((name, at) => {
        // What was charged too much and taken off again is negative: it lowers the sum, and has no place of its own.
        const amount = Math.max(0, amountOf(bar, name));
        const height = most > 0 ? (amount / most) * HEIGHT : 0;
        top -= height;
        return h(
          "rect",
          { key: name, class: `part-${at % COLOURS}`, x: left, y: top, width: WIDTH, height },
          h("title", null, `${bar.name}: ${name} ${said(amount)} of ${said(sumOf(bar))}`),
        );
      }),
    );
  },
);

/** @param {Bar} bar @param {string} name */
function amountOf({ parts }, name) {
  return parts.find((part) => part.name === name)?.amount ?? 0;
}

/** @param {Bar} bar */
function sumOf({ parts }) {
  return parts.reduce((sum, { amount }) => sum + amount, 0);
}

/** Of what is drawn. @param {Bar} bar */
function heightOf({ parts }) {
  return parts.reduce((sum, { amount }) => sum + Math.max(0, amount), 0);
}
