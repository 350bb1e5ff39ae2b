// Elements and components as typed calls: h("a", { href }, "text") and Table({ columns, ... }).

import { Fragment, h as create } from "../vendor/preact.js";

/** @typedef {import("../vendor/preact.js").ComponentChildren} Children */
/** @typedef {import("../vendor/preact.js").VNode} Element */
/** @typedef {import("../vendor/preact.js").JSX.IntrinsicElements} Elements */
/** @typedef {{ key?: string | number }} Keyed */
/** @typedef {{ [name: `data-${string}`]: string }} Data */

/**
 * @template {keyof Elements} Name
 * @param {Name} name
 * @param {(Elements[Name] & Data) | null} [attributes]
 * @param {...Children} children
 * @returns {Element}
 */
export function h(name, attributes, ...children) {
  return create(/** @type {string} */ (name), /** @type {{}} */ (attributes ?? null), ...children);
}

/** @param {...Children} children */
export function group(...children) {
  return create(Fragment, null, ...children);
}

/**
 * A component that is called with its props, which are checked, type parameters included.
 *
 * @template Props
 * @param {(props: Props) => Children} draw
 * @returns {(props: Props & Keyed) => Element}
 */
export function component(draw) {
  return (props) => create(/** @type {any} */ (draw), /** @type {any} */ (props));
}

/**
 * Words of a class attribute; what is false or empty is left out.
 *
 * @param {...(string | false | null | undefined)} words
 */
export function classes(...words) {
  return words.filter(Boolean).join(" ");
}
