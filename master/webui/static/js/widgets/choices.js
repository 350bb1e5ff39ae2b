// Some of many names, by check boxes; and how they stand in an address.

import { component, h } from "../html.js";

/** @param {string | null} text of an address @returns {string[]} */
export function namesOf(text) {
  return (text ?? "").split(" ").filter(Boolean).map(decoded);
}

/** @param {string[]} names */
export function textOf(names) {
  return names.map(encodeURIComponent).join(" ");
}

/** @param {string} word */
function decoded(word) {
  try {
    return decodeURIComponent(word);
  } catch {
    return word;
  }
}

export const Choices = component(
  /**
   * @param {object} props
   * @param {string} props.label
   * @param {string[]} props.names
   * @param {string[]} props.chosen
   * @param {(chosen: string[]) => void} props.onChange in the order of the names
   */
  ({ label, names, chosen, onChange }) => {
    const among = new Set(chosen);
    const toggle = (/** @type {string} */ name) => {
      if (!among.delete(name)) among.add(name);
      onChange(names.filter((one) => among.has(one)));
    };
    return h(
      "details",
      { class: "choices" },
      h("summary", null, `${label}: ${chosen.length} of ${names.length}`),
      h(
        "div",
        { role: "group", "aria-label": label },
        names.map((name) =>
          h(
            "label",
            { key: name },
            h("input", { type: "checkbox", checked: among.has(name), onChange: () => toggle(name) }),
            ` ${name}`,
          ),
        ),
      ),
    );
  },
);
