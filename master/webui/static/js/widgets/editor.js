// A text area for configurations: line numbers, indenting by Tab, and what the master says of a line beside it.

import { useLayoutEffect, useRef } from "../../vendor/hooks.js";
import { component, h } from "../html.js";

/** @typedef {import("../store.js").Schemas["ConfigProblem"]} ConfigProblem */

const INDENT = "  ";
const LINE_PX = 18;
const HINT = "Tab indents, Shift+Tab takes it back. To leave the editor by keyboard press Esc, then Tab.";

/**
 * @typedef {object} EditorProps
 * @property {string} id of the text area, for its label
 * @property {string} label
 * @property {string} value
 * @property {(value: string) => void} onChange
 * @property {ConfigProblem[]} [problems] of the text
 * @property {number} [rows]
 */

export const Editor = component(
  /** @param {EditorProps} props */
  ({ id, label, value, onChange, problems = [], rows = 20 }) => {
    const area = useRef(/** @type {HTMLTextAreaElement | null} */ (null));
    const gutter = useRef(/** @type {HTMLDivElement | null} */ (null));
    const lines = value.split("\n").length;
    const wrong = [...new Set(problems.flatMap(({ line }) => line ?? []))];
    const scroll = () => {
      if (area.current && gutter.current) gutter.current.scrollTop = area.current.scrollTop;
    };
    useLayoutEffect(scroll);
    return h(
      "div",
      { class: "editor" },
      h("label", { for: id }, label),
      h(
        "div",
        { class: "editor-text" },
        h(
          "div",
          { class: "gutter", ref: gutter, "aria-hidden": "true" },
          h("pre", null, Array.from({ length: lines }, (_, at) => at + 1).join("\n") + "\n"),
          wrong.map((line) =>
            h("span", { key: line, class: "wrong", style: { top: `${(line - 1) * LINE_PX}px` } }, `✕ ${line}`),
          ),
        ),
        h("textarea", {
          id,
          ref: area,
          class: "code",
          value,
          rows,
          wrap: "off",
          spellcheck: false,
          autocomplete: "off",
          "aria-describedby": `${id}-hint ${id}-problems`,
          "aria-invalid": problems.length > 0,
          onInput: (event) => onChange(event.currentTarget.value),
          onScroll: scroll,
          onKeyDown: useKeys(),
        }),
      ),
      h("p", { id: `${id}-hint`, class: "note" }, HINT),
      h(
        "ul",
        { id: `${id}-problems`, class: "editor-problems", "aria-label": `Problems of ${label}` },
        problems.map((problem) => h("li", { key: `${problem.path} ${problem.message}` }, Sentence({ problem, area }))),
      ),
    );
  },
);

const Sentence = component(
  /** @param {{ problem: ConfigProblem, area: { current: HTMLTextAreaElement | null } }} props */
  ({ problem: { path, message, line }, area }) =>
    h(
      "p",
      { class: "problem" },
      line !== null && [
        h("button", { type: "button", class: "plain", onClick: () => showLine(area.current, line) }, `Line ${line}`),
        " ",
      ],
      path && [h("code", null, path), ": "],
      message,
    ),
);

/** Selects a line and shows it. @param {HTMLTextAreaElement | null} area @param {number} line */
function showLine(area, line) {
  if (!area) return;
  const before = area.value.split("\n").slice(0, line - 1);
  const start = before.reduce((sum, text) => sum + text.length + 1, 0);
  const end = area.value.indexOf("\n", start);
  area.focus();
  area.setSelectionRange(start, end < 0 ? area.value.length : end);
  area.scrollTop = Math.max(0, (line - 4) * LINE_PX);
}

/** Who presses Esc leaves by the next Tab: nobody is held in the editor. */
function useKeys() {
  const leaves = useRef(false);
  return (/** @type {KeyboardEvent & { currentTarget: HTMLTextAreaElement }} */ event) => {
    const area = event.currentTarget;
    const isPlain = !event.ctrlKey && !event.altKey && !event.metaKey && !event.isComposing;
    if (event.key === "Tab" && isPlain && !leaves.current) {
      event.preventDefault();
      if (event.shiftKey) changeLines(area, (text) => text.replace(/^ {1,2}/, ""));
      else if (area.selectionStart === area.selectionEnd) type(INDENT);
      else changeLines(area, (text) => INDENT + text);
    } else if (event.key === "Enter" && isPlain && !event.shiftKey) {
      event.preventDefault();
      const line = area.value.slice(0, area.selectionStart).split("\n").at(-1) ?? "";
      type(`\n${/^ */.exec(line)?.[0] ?? ""}`);
    }
    // The first Esc is the editor's, the second closes the dialog that it is in.
    if (event.key === "Escape" && !leaves.current) event.preventDefault();
    if (event.key !== "Shift") leaves.current = event.key === "Escape";
  };
}

/** Changes each line of the selection. @param {HTMLTextAreaElement} area @param {(text: string) => string} change */
function changeLines(area, change) {
  const { value, selectionStart, selectionEnd } = area;
  const start = value.lastIndexOf("\n", selectionStart - 1) + 1;
  const newline = value.indexOf("\n", Math.max(start, selectionEnd - 1));
  const end = newline < 0 ? value.length : newline;
  const before = value.slice(start, end);
  const after = before.split("\n").map(change).join("\n");
  if (before === after) return;
  area.setSelectionRange(start, end);
  type(after);
  area.setSelectionRange(start, start + after.length);
}

/** As if it was typed: the browser's own undo takes it back. @param {string} text */
function type(text) {
  document.execCommand(text ? "insertText" : "delete", false, text);
}
