// A text file with line numbers. It is one text, so that the browser's own search and copying work.

import { useLayoutEffect, useRef } from "../../vendor/hooks.js";
import { visible } from "../format.js";
import { component, h } from "../html.js";

const LINE_PX = 18;
const PADDING_PX = 12;

export const CodeView = component(
  /** @param {{ label: string, text: string, line?: number }} props `line`: is marked, and scrolled to */
  ({ label, text, line = 0 }) => {
    const marked = useRef(/** @type {HTMLDivElement | null} */ (null));
    const shown = visible(text.replaceAll("\r\n", "\n"));
    const count = shown.split("\n").length;
    useLayoutEffect(() => marked.current?.scrollIntoView({ block: "center" }), [text, line]);
    const numbers = Array.from({ length: count }, (_, index) => index + 1).join("\n");
    return h(
      "div",
      { class: "code", tabIndex: 0, role: "region", "aria-label": label },
      line > 0 &&
        line <= count &&
        h("div", { class: "code-line", ref: marked, style: { top: `${PADDING_PX + (line - 1) * LINE_PX}px` } }),
      h("pre", { class: "code-numbers", "aria-hidden": true }, numbers),
      h("pre", { class: "code-text" }, shown),
    );
  },
);
