// An input whose text is taken when it is finished. Until then it stays as it is typed.

import { useLayoutEffect, useRef } from "../../vendor/hooks.js";
import { component, h } from "../html.js";

/** @typedef {import("../html.js").Elements["input"]} Attributes */

export const Typed = component(
  /** @param {{ value: string, onChange: (value: string) => void, attributes: Attributes }} props */
  ({ value, onChange, attributes }) => {
    const input = useRef(/** @type {HTMLInputElement | null} */ (null));
    useLayoutEffect(() => {
      if (input.current) input.current.value = value;
    }, [value]);
    return h("input", { ...attributes, ref: input, onChange: (event) => onChange(event.currentTarget.value) });
  },
);
