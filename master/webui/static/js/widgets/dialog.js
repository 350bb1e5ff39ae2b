// A question over the page: Escape and the button close it, the focus goes back to where it was.

import { useLayoutEffect, useRef } from "../../vendor/hooks.js";
import { component, h } from "../html.js";

/** @typedef {import("../html.js").Children} Children */

export const Dialog = component(
  /**
   * @param {object} props
   * @param {string} props.title
   * @param {Children} props.children
   * @param {() => void} props.onClose
   * @param {boolean} [props.mayClose]
   * @param {string} [props.className] for its own look
   */
  ({ title, children, onClose, mayClose = true, className = "" }) => {
    const element = useRef(/** @type {HTMLDialogElement | null} */ (null));
    useLayoutEffect(() => {
      const before = document.activeElement;
      element.current?.showModal();
      return () => {
        if (before instanceof HTMLElement) before.focus();
      };
    }, []);
    const cancel = (/** @type {Event} */ event) => {
      event.preventDefault();
      if (mayClose) onClose();
    };
    return h(
      "dialog",
      // Browsers close it at the second Escape, whatever is said to the first.
      {
        ref: element,
        class: className,
        "aria-labelledby": "dialog-title",
        onCancel: cancel,
        onClose: () => (mayClose ? onClose() : element.current?.showModal()),
      },
      h(
        "header",
        null,
        h("h2", { id: "dialog-title" }, title),
        mayClose && h("button", { type: "button", class: "plain", onClick: onClose, "aria-label": "Close" }, "✕"),
      ),
      children,
    );
  },
);

export const Confirm = component(
  /** @param {{ title: string, text: Children, verb: string, onConfirm: () => void, onClose: () => void }} props */
  ({ title, text, verb, onConfirm, onClose }) =>
    Dialog({
      title,
      onClose,
      children: [
        h("p", null, text),
        h(
          "p",
          { class: "buttons" },
          h("button", { type: "button", class: "plain", onClick: onClose }, "Keep it as it is"),
          h("button", { type: "button", onClick: onConfirm }, verb),
        ),
      ],
    }),
);
