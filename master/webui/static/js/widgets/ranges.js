// Ranges of axes by keyboard: what dragging on a drawing chooses too.

import { component, h } from "../html.js";
import { isWithin } from "./scale.js";

/** @typedef {import("./parallel.js").Axis} Axis */
/** @typedef {import("./scale.js").Range} Range */

const MOST_WORDS = 50;

export const Ranges = component(
  /**
   * @param {object} props
   * @param {Axis[]} props.axes
   * @param {Record<string, Range>} props.ranges
   * @param {(id: string, range: Range | null) => void} props.onRange
   */
  ({ axes, ranges, onRange }) =>
    h(
      "details",
      { class: "choices" },
      h("summary", null, `Ranges: ${Object.keys(ranges).length} set`),
      h(
        "div",
        null,
        axes.map((axis) => {
          const set = (/** @type {Range | null} */ range) => onRange(axis.id, range);
          const props = { key: axis.id, axis, range: ranges[axis.id], set };
          return axis.scale.kind === "words" ? Words(props) : Ends(props);
        }),
      ),
    ),
);

const Ends = component(
  /** @param {{ axis: Axis, range: Range | undefined, set: (range: Range | null) => void }} props */
  ({ axis, range, set }) => {
    const [low, high] = axis.scale.range(0, 1);
    const ends = [Number(range?.[0] ?? low), Number(range?.[1] ?? high)];
    const change = (/** @type {number} */ at, /** @type {string} */ text) => {
      const next = ends.map((end, index) => (index === at ? (text === "" ? [low, high][at] : Number(text)) : end));
      const isWhole = Number(next[0]) <= Number(low) && Number(next[1]) >= Number(high);
      set(isWhole ? null : [Number(next[0]), Number(next[1])]);
    };
    return h(
      "div",
      { role: "group", "aria-label": axis.title, class: "bar" },
      h("span", null, axis.title),
      ["from", "to"].map((word, at) =>
        h("input", {
          key: word,
          type: "number",
          step: "any",
          "aria-label": `${axis.title} ${word}`,
          value: ends[at],
          onChange: (event) => change(at, event.currentTarget.value),
        }),
      ),
    );
  },
);

const Words = component(
  /** @param {{ axis: Axis, range: Range | undefined, set: (range: Range | null) => void }} props */
  ({ axis, range, set }) => {
    const titles = axis.scale.ticks(axis.scale.words.length);
    const chosen = axis.scale.words.filter((word) => !range || isWithin(range, JSON.parse(word)));
    const toggle = (/** @type {string} */ word) => {
      const next = axis.scale.words.filter((one) => chosen.includes(one) !== (one === word));
      set(next.length === axis.scale.words.length || !next.length ? null : next);
    };
    return h(
      "div",
      { role: "group", "aria-label": axis.title, class: "bar" },
      h("span", null, axis.title),
      axis.scale.words
        .slice(0, MOST_WORDS)
        .map((word, at) =>
          h(
            "label",
            { key: word },
            h("input", { type: "checkbox", checked: chosen.includes(word), onChange: () => toggle(word) }),
            ` ${titles[at]?.text ?? word}`,
          ),
        ),
    );
  },
);
