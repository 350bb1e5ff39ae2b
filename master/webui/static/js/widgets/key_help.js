// `?`: which keys there are.

import { component, h } from "../html.js";
import { PLACES } from "../places.js";
import { Dialog } from "./dialog.js";

/** @type {[string, string][]} */
const KEYS = [
  ["Ctrl+K or /", "find a page, an action or anything by its name or id"],
  ["?", "this list"],
  ...PLACES.map(({ key, title }) => /** @type {[string, string]} */ ([key, title])),
  ["j k, arrows", "move in a list"],
  ["Home End, Page Up Page Down", "move further in a list"],
  ["Enter", "open"],
  ["x, Shift+X", "select, select up to here"],
  ["c", "compare what is selected"],
  ["f", "filter or search"],
  ["e", "choose columns"],
  ["n N", "in a log: the next hit, the one before"],
  ["Esc", "select nothing; close a dialog"],
  ["u d p .", "in the queue: move up, move down, priority, buttons"],
];

export const KeyHelp = component(
  /** @param {{ onClose: () => void }} props */
  ({ onClose }) =>
    Dialog({
      title: "Keys",
      onClose,
      children: h(
        "table",
        null,
        h(
          "tbody",
          null,
          KEYS.map(([key, does]) =>
            h("tr", { key }, h("th", { scope: "row" }, h("kbd", null, key)), h("td", null, does)),
          ),
        ),
      ),
    }),
);
