// A form in a dialog: its fields as a list; what the master refuses is said at the field that it names.

import { useState } from "../../vendor/hooks.js";
import { component, group, h } from "../html.js";
import { Dialog } from "./dialog.js";

/** @typedef {import("../html.js").Children} Children */
/** @typedef {Record<string, string>} Values a checked box is "1", another "" */

/**
 * @typedef {object} Field
 * @property {string} name as the API calls it: by this the master's error finds it
 * @property {string} label
 * @property {"text" | "password" | "area" | "code" | "check" | "number"} [kind]
 * @property {{ value: string, text: string }[]} [options] one of these
 * @property {string} [value] what it begins with
 * @property {string} [hint]
 * @property {boolean} [required]
 * @property {number} [min] of a number
 * @property {number} [max] of a number
 * @property {number | "any"} [step] of a number; else whole ones
 */

/**
 * @typedef {object} FormProps
 * @property {string} verb of the button that does it
 * @property {Field[]} fields
 * @property {(values: Values) => Promise<unknown>} submit
 * @property {() => void} [done] after it
 * @property {Children} [note] above the fields
 * @property {boolean} [isReadOnly]
 * @property {string} [username] whose password it sets: for programs that keep passwords
 */

export const Form = component(
  /** @param {FormProps} props */
  ({ verb, fields, submit, done, note, isReadOnly = false, username }) => {
    const [state, setState] = useState({ isBusy: false, error: "" });
    const faulty = fieldOf(state.error, fields);
    const send = async (/** @type {SubmitEvent} */ event) => {
      event.preventDefault();
      const element = /** @type {HTMLFormElement} */ (event.currentTarget);
      const form = new FormData(element);
      setState({ isBusy: true, error: "" });
      try {
        await submit(Object.fromEntries(fields.map(({ name }) => [name, String(form.get(name) ?? "")])));
        forgetPasswords(element);
        setState({ isBusy: false, error: "" });
        done?.();
      } catch (error) {
        setState({ isBusy: false, error: error instanceof Error ? error.message : String(error) });
      }
    };
    return h(
      "form",
      { class: "fields", onSubmit: send },
      note,
      username && h("input", { type: "text", autocomplete: "username", value: username, hidden: true, readOnly: true }),
      fields.map((field) => Input({ key: field.name, field, error: faulty === field ? state.error : "", isReadOnly })),
      state.error && !faulty && h("p", { class: "problem", role: "alert" }, state.error),
      !isReadOnly &&
        h(
          "p",
          { class: "buttons" },
          h("button", { type: "submit", disabled: state.isBusy }, state.isBusy ? "…" : verb),
        ),
    );
  },
);

/** @param {HTMLFormElement} form */
function forgetPasswords(form) {
  for (const input of form.querySelectorAll("input")) if (input.type === "password") input.value = "";
}

/** The field that the master's sentence begins with or names. @param {string} error @param {Field[]} fields */
function fieldOf(error, fields) {
  const words = error.replaceAll("_", "").toLowerCase().match(/\w+/g) ?? [];
  const named = (/** @type {string} */ word) => fields.find(({ name }) => name.toLowerCase() === word);
  return words.map(named).find(Boolean);
}

const Input = component(
  /** @param {{ field: Field, error: string, isReadOnly: boolean }} props */
  ({ field, error, isReadOnly }) => {
    const { name, label, kind = "text", options, value = "", hint, required, min, max, step } = field;
    const note = error || hint ? `note-of-${name}` : undefined;
    const shared = { name, required, disabled: isReadOnly, "aria-describedby": note, "aria-invalid": Boolean(error) };
    const long = kind === "area" || kind === "code";
    const control = options
      ? h(
          "select",
          shared,
          options.map((one) =>
            h("option", { key: one.value, value: one.value, selected: one.value === value }, one.text),
          ),
        )
      : long
        ? h("textarea", {
            ...shared,
            defaultValue: value,
            rows: kind === "code" ? 16 : 4,
            class: kind,
            spellcheck: kind === "area",
          })
        : kind === "check"
          ? h("input", { ...shared, type: "checkbox", value: "1", defaultChecked: value === "1" })
          : h("input", {
              ...shared,
              type: kind,
              min,
              max,
              step,
              defaultValue: value,
              autocomplete: kind === "password" ? "new-password" : name === "username" ? "username" : "off",
            });
    const text = h("span", null, label);
    return group(
      h("label", { class: kind === "check" ? "check" : "" }, kind === "check" ? [control, " ", text] : [text, control]),
      note && h("p", { id: note, class: error ? "problem" : "note", role: error ? "alert" : undefined }, error || hint),
    );
  },
);

/** A button, and its form in a dialog. */
export const FormButton = component(
  /** @param {FormProps & { title: string, isMain?: boolean }} props */
  ({ title, isMain = false, ...form }) => {
    const [isOpen, open] = useState(false);
    const close = () => open(false);
    const done = () => {
      close();
      form.done?.();
    };
    return group(
      h("button", { type: "button", class: isMain ? "" : "plain", onClick: () => open(true) }, form.verb),
      isOpen && Dialog({ title, onClose: close, children: Form({ ...form, done }) }),
    );
  },
);

/** `a, b` as a list. @param {string | undefined} text */
export function words(text) {
  return (text ?? "")
    .split(",")
    .map((word) => word.trim())
    .filter(Boolean);
}
