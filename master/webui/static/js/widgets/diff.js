// A unified diff: what was added and removed, by colour and by the sign at the beginning of each line.

import { plain } from "../format.js";
import { classes, component, h } from "../html.js";

/** By how a line begins; the first that fits. @type {[string, string][]} */
const KINDS = [
  ["--- ", "file"],
  ["+++ ", "file"],
  ["@@", "hunk"],
  ["+", "added"],
  ["-", "removed"],
];

export const Diff = component(
  /** @param {{ label: string, text: string }} props `label`: what differs */
  ({ label, text }) => {
    const lines = text.replace(/\n$/, "").split("\n");
    return h(
      "pre",
      { class: "diff", tabIndex: 0, role: "region", "aria-label": `Differences of ${label}` },
      lines.map((line, at) => h("span", { key: at, class: classes("line", kindOf(line, at)) }, `${plain(line)}\n`)),
    );
  },
);

/**
 * Only the first lines name files: a later one may be a line that begins with two signs.
 *
 * @param {string} line
 * @param {number} at
 */
function kindOf(line, at) {
  const kind = KINDS.find(([sign, name]) => line.startsWith(sign) && (name !== "file" || at < 2));
  return kind?.[1];
}
