// Notes in Markdown: the master makes a tree of elements of them, so that no HTML of anybody's is ever read here.

import { useEffect, useState } from "../../vendor/hooks.js";
import { api, ok } from "../api.js";
import { component, h } from "../html.js";

/** @typedef {import("../store.js").Schemas["MarkdownNode"]} Node */
/** @typedef {import("../html.js").Children} Children */

const HEADINGS = /** @type {const} */ (["h2", "h3", "h4", "h5", "h6", "h6"]);

/** @type {Record<Node["kind"], (node: Node, inner: Children) => Children>} */
const ELEMENTS = {
  text: (node) => node.text,
  break: () => h("br"),
  code: (node) => h("code", null, node.text),
  strong: (_, inner) => h("strong", null, inner),
  emphasis: (_, inner) => h("em", null, inner),
  deleted: (_, inner) => h("s", null, inner),
  link: (node, inner) => h("a", { href: node.href, target: "_blank", rel: "noopener noreferrer nofollow" }, inner),
  paragraph: (_, inner) => h("p", null, inner),
  heading: (node, inner) => h(HEADINGS[node.level - 1] ?? "h6", null, inner),
  quote: (_, inner) => h("blockquote", null, inner),
  code_block: (node) => h("pre", { tabIndex: 0, "aria-label": "Code" }, node.text),
  rule: () => h("hr"),
  list: (_, inner) => h("ul", null, inner),
  ordered_list: (node, inner) => h("ol", { start: node.level }, inner),
  item: (_, inner) => h("li", null, inner),
  table: (_, inner) => h("div", { class: "scrolls" }, h("table", null, h("tbody", null, inner))),
  row: (_, inner) => h("tr", null, inner),
  head_cell: (_, inner) => h("th", { scope: "col" }, inner),
  cell: (_, inner) => h("td", null, inner),
};

export const Markdown = component(
  /** @param {{ text: string, label: string }} props */
  ({ text, label }) => {
    const [parsed, setParsed] = useState({ text: "", nodes: /** @type {Node[]} */ ([]) });
    useEffect(() => {
      const stop = new AbortController();
      ok(api.POST("/api/v1/windlass/markdown", { body: { text }, signal: stop.signal })).then(
        ({ nodes }) => setParsed({ text, nodes }),
        () => {}, // It stays as it was written.
      );
      return () => stop.abort();
    }, [text]);
    if (parsed.text !== text) return h("pre", { tabIndex: 0, "aria-label": label }, text);
    return h("div", { class: "markdown", role: "region", "aria-label": label }, parsed.nodes.map(drawn));
  },
);

/** @param {Node} node @returns {Children} */
function drawn(node) {
  return ELEMENTS[node.kind](node, node.children.map(drawn));
}
