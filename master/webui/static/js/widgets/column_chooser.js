// Which columns a table has: those that it always knows, and those that users name.

import { useState } from "../../vendor/hooks.js";
import { component, h } from "../html.js";
import { Dialog } from "./dialog.js";

/** @typedef {{ id: string, title: string }} Choice */

const MOST_SHOWN = 300;

export const ColumnChooser = component(
  /**
   * @param {object} props
   * @param {Choice[]} props.known
   * @param {Choice[] | null} props.named hyperparameters, metrics, metadata; null while they are looked for
   * @param {string[]} props.chosen ids, in their order
   * @param {number} props.most that may be chosen of `named`
   * @param {(ids: string[] | null) => void} props.onChoose null: as it was in the beginning
   * @param {() => void} props.onClose
   */
  ({ known, named, chosen, most, onChoose, onClose }) => {
    const [part, setPart] = useState("");
    const ids = new Set(chosen);
    const all = [...known, ...(named ?? []), ...lost(chosen, known, named)];
    const found = all.filter((one) => `${one.id} ${one.title}`.toLowerCase().includes(part.toLowerCase()));
    const isFull = chosen.filter((id) => !known.some((one) => one.id === id)).length >= most;
    const toggle = (/** @type {string} */ id) => {
      if (!ids.delete(id)) ids.add(id);
      const order = known.map((one) => one.id).filter((one) => ids.has(one));
      onChoose([...order, ...[...ids].filter((one) => !order.includes(one))]);
    };
    return Dialog({
      title: "Columns",
      onClose,
      children: [
        h("input", {
          key: "part",
          type: "search",
          "aria-label": "Columns whose name contains",
          placeholder: "Name contains",
          onInput: (event) => setPart(event.currentTarget.value),
        }),
        h(
          "ul",
          { key: "choices", class: "choices" },
          found.slice(0, MOST_SHOWN).map((one) =>
            h(
              "li",
              { key: one.id },
              h(
                "label",
                { class: "check" },
                h("input", {
                  type: "checkbox",
                  checked: ids.has(one.id),
                  disabled: isFull && !ids.has(one.id) && !known.includes(one),
                  onChange: () => toggle(one.id),
                }),
                " ",
                one.title,
              ),
            ),
          ),
        ),
        named === null && h("p", { key: "wait", class: "note", role: "status" }, "Looking for more…"),
        found.length > MOST_SHOWN &&
          h("p", { key: "more", class: "note" }, `${found.length - MOST_SHOWN} more: write a part of the name.`),
        h(
          "p",
          { key: "buttons", class: "buttons" },
          h("button", { type: "button", class: "plain", onClick: () => onChoose(null) }, "As at first"),
          h("button", { type: "button", onClick: onClose }, "Done"),
        ),
      ],
    });
  },
);

/**
 * Those chosen that nothing has any more.
 *
 * @param {string[]} chosen
 * @param {Choice[]} known
 * @param {Choice[] | null} named
 */
function lost(chosen, known, named) {
  const there = new Set([...known, ...(named ?? [])].map((one) => one.id));
  return chosen.filter((id) => !there.has(id)).map((id) => ({ id, title: id }));
}
