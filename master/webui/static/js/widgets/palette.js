// Ctrl+K or `/`: pages, actions and everything that has a name, found by what one types; arrows choose, Enter goes.

import { useEffect, useRef, useState } from "../../vendor/hooks.js";
import { component, h } from "../html.js";
import { FURTHER, PLACES } from "../places.js";
import { go, href } from "../router.js";
import { theme } from "../store.js";
import { Dialog } from "./dialog.js";
import { useFound } from "./found.js";

/** @typedef {{ title: string, note: string, act: () => void }} Entry */

/** @type {Entry[]} */
const OWN = [
  ...[...PLACES, ...FURTHER].map(({ title, path }) => ({ title, note: "page", act: () => go(href(path)) })),
  ...["light", "dark", ""].map((name) => ({
    title: `Theme: ${name || "as the system has it"}`,
    note: "action",
    act: () => void (theme.value = name),
  })),
];

export const Palette = component(
  /** @param {{ onClose: () => void }} props */
  ({ onClose }) => {
    const [text, setText] = useState("");
    const [chosen, choose] = useState(0);
    const { entries: named, note } = useFound(text);
    const part = text.trim().toLowerCase();
    const entries = [...OWN.filter(({ title }) => title.toLowerCase().includes(part)), ...named];
    const at = Math.min(chosen, Math.max(0, entries.length - 1));
    const list = useRef(/** @type {HTMLUListElement | null} */ (null));
    useEffect(() => list.current?.children[at]?.scrollIntoView({ block: "nearest" }), [at, entries.length]);
    const take = (/** @type {Entry | undefined} */ entry) => {
      if (!entry) return;
      onClose();
      entry.act();
    };
    const press = (/** @type {KeyboardEvent} */ event) => {
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key] ?? 0;
      if (event.key === "Enter") take(entries[at]);
      else if (step && entries.length) choose((at + step + entries.length) % entries.length);
      else return;
      event.preventDefault();
    };
    return Dialog({
      title: "Go to",
      className: "palette",
      onClose,
      children: [
        h("input", {
          type: "text",
          role: "combobox",
          "aria-label": "Page, action, name or id",
          "aria-expanded": true,
          "aria-controls": "palette-found",
          "aria-autocomplete": "list",
          "aria-activedescendant": entries.length ? `palette-${at}` : undefined,
          autofocus: true,
          value: text,
          maxLength: 200,
          onInput: (event) => {
            setText(event.currentTarget.value);
            choose(0);
          },
          onKeyDown: press,
        }),
        h(
          "ul",
          { id: "palette-found", role: "listbox", "aria-label": "Found", ref: list },
          entries.map((entry, index) =>
            h(
              "li",
              {
                key: index,
                id: `palette-${index}`,
                role: "option",
                "aria-selected": index === at,
                onClick: () => take(entry),
              },
              h("span", null, entry.title),
              h("span", { class: "note" }, entry.note),
            ),
          ),
        ),
        h("p", { class: "note", role: "status" }, entries.length || note ? note : "Nothing has that name or id."),
      ],
    });
  },
);
