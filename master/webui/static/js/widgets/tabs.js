// The parts of a page, each with an address of its own: links, so that they open in a new window too.

import { component, h } from "../html.js";

export const Tabs = component(
  /** @param {{ label: string, tabs: { id: string, title: string, href: string }[], current: string }} props */
  ({ label, tabs, current }) =>
    h(
      "nav",
      { class: "tabs", "aria-label": label },
      tabs.map((tab) =>
        h("a", { key: tab.id, href: tab.href, "aria-current": tab.id === current ? "page" : undefined }, tab.title),
      ),
    ),
);
