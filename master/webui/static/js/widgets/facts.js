// What is known of one thing, in pairs of a word and a value. Values that are empty are left out.

import { component, h } from "../html.js";

/** @typedef {import("../html.js").Children} Children */
/** @typedef {[title: string, value: Children, hint?: string]} Fact `hint`: what it counts */

export const Facts = component(
  /** @param {{ facts: Fact[] }} props */
  ({ facts }) =>
    h(
      "dl",
      { class: "facts" },
      facts
        .filter(([, value]) => value !== "" && value !== null && value !== undefined)
        .map(([title, value, hint]) =>
          h("div", { key: title, title: hint }, h("dt", null, title), h("dd", null, value)),
        ),
    ),
);
