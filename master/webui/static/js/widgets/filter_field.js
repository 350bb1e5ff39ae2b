// The field for a filter: words are completed while it is typed, and what is wrong is shown at its place.

import { useLayoutEffect, useRef, useState } from "../../vendor/hooks.js";
import { ApiError } from "../api.js";
import { component, group, h } from "../html.js";
import { completions } from "./completions.js";

/** @typedef {import("./completions.js").Word} Word */

export const FilterField = component(
  /**
   * @param {object} props
   * @param {string} props.value
   * @param {(text: string) => void} props.onChange when it is finished: Enter, or another field
   * @param {Word[]} props.words
   * @param {() => void} props.onFocus
   */
  ({ value, onChange, words, onFocus }) => {
    const input = useRef(/** @type {HTMLInputElement | null} */ (null));
    const [typed, setTyped] = useState(/** @type {{ text: string, caret: number } | null} */ (null));
    const [active, setActive] = useState(-1);
    useLayoutEffect(() => {
      if (input.current) input.current.value = value;
    }, [value]);
    const found = typed && completions(typed.text, typed.caret, words);
    const options = found?.options ?? [];
    const close = () => {
      setTyped(null);
      setActive(-1);
    };
    const look = () => {
      const field = input.current;
      setTyped(field && { text: field.value, caret: field.selectionStart ?? field.value.length });
      setActive(-1);
    };
    const take = (/** @type {number} */ index) => {
      const option = options[index];
      const field = input.current;
      if (!field || !found || !option) return;
      field.setRangeText(`${option.text} `, found.start, found.end, "end");
      field.focus();
      look();
    };
    const press = (/** @type {KeyboardEvent} */ event) => {
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (step !== undefined && !typed) look();
      else if (step !== undefined && options.length) setActive((active + step + options.length) % options.length);
      else if (["Enter", "Tab"].includes(event.key) && active >= 0) take(active);
      else if (event.key === "Escape" && options.length) close();
      else if (event.key === "Enter") {
        close();
        onChange(input.current?.value ?? value);
        return;
      } else return;
      event.preventDefault();
      event.stopPropagation();
    };
    const isOpen = options.length > 0;
    return h(
      "div",
      { class: "combobox" },
      h("input", {
        ref: input,
        id: "filter",
        type: "search",
        role: "combobox",
        spellcheck: false,
        autocomplete: "off",
        placeholder: "Filter (f): state = RUNNING and lr < 0.01",
        "aria-label": "Filter",
        "aria-expanded": isOpen,
        "aria-controls": "filter-options",
        "aria-autocomplete": "list",
        "aria-activedescendant": active >= 0 && isOpen ? `filter-option-${active}` : undefined,
        "aria-describedby": "filter-problem",
        onFocus,
        onInput: look,
        onKeyDown: press,
        onBlur: close,
        onChange: (event) => onChange(event.currentTarget.value),
      }),
      h(
        "ul",
        { id: "filter-options", role: "listbox", "aria-label": "Words of filters", hidden: !isOpen },
        options.map((option, index) =>
          h(
            "li",
            {
              key: option.text,
              id: `filter-option-${index}`,
              role: "option",
              "aria-selected": index === active,
              // Before the field loses the focus.
              onMouseDown: (event) => {
                event.preventDefault();
                take(index);
              },
            },
            h("span", null, option.text),
            option.note && h("span", { class: "note" }, option.note),
          ),
        ),
      ),
    );
  },
);

/** The filter that the master could not read, with the place. */
export const FilterProblem = component(
  /** @param {{ text: string, error: Error | null }} props */
  ({ text, error }) => {
    const place = error instanceof ApiError ? error.place : null;
    return h(
      "div",
      { id: "filter-problem", class: "filter-problem", role: "status" },
      error &&
        place &&
        group(
          h(
            "p",
            { class: "place", "aria-hidden": true },
            text.slice(0, place.start),
            h("mark", null, text.slice(place.start, Math.max(place.end, place.start + 1)) || " "),
            text.slice(place.end),
          ),
          h("p", { class: "problem" }, error.message),
        ),
    );
  },
);
