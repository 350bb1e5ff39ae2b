// Files in directories. A directory is a disclosure of the browser; what is in it is drawn when it is opened.

import { useEffect, useState } from "../../vendor/hooks.js";
import { visible } from "../format.js";
import { component, h } from "../html.js";

/** @typedef {{ path: string, name: string, isDir: boolean, files: Node[] }} Node */

/** @typedef {import("../html.js").Keyed} Keyed */

/**
 * @typedef {object} TreeProps
 * @property {string} label
 * @property {Node[]} nodes
 * @property {string} current path of the file that is shown
 * @property {(path: string) => string} link
 */

export const Tree = component(
  /** @param {TreeProps} props */
  ({ label, ...rest }) => h("nav", { class: "tree", "aria-label": label }, Level(rest)),
);

/** @type {(props: Omit<TreeProps, "label">) => import("../html.js").Element} */
const Level = component(
  /** @param {Omit<TreeProps, "label">} props */
  ({ nodes, current, link }) =>
    h(
      "ul",
      null,
      nodes.map((node) =>
        h(
          "li",
          { key: node.name },
          node.isDir
            ? Directory({ node, current, link })
            : h(
                "a",
                { href: link(node.path), "aria-current": node.path === current ? "true" : undefined },
                visible(node.name),
              ),
        ),
      ),
    ),
);

/** @type {(props: { node: Node, current: string, link: TreeProps["link"] } & Keyed) => import("../html.js").Element} */
const Directory = component(
  /** @param {{ node: Node, current: string, link: TreeProps["link"] }} props */
  ({ node, current, link }) => {
    const isAbove = current.startsWith(`${node.path}/`);
    const [isOpen, open] = useState(isAbove);
    useEffect(() => {
      if (isAbove) open(true);
    }, [current]);
    return h(
      "details",
      { open: isOpen, onToggle: (event) => open(event.currentTarget.open) },
      h("summary", null, `${visible(node.name)}/`),
      isOpen && Level({ nodes: node.files, current, link }),
    );
  },
);
