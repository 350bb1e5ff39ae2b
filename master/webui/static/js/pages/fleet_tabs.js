// What pages of machines and money have in common: their title and the way from one to the next.

import { component, h } from "../html.js";
import { href } from "../router.js";
import { Heading } from "../widgets/page.js";
import { Tabs } from "../widgets/tabs.js";

const TABS = /** @type {const} */ ([
  { id: "fleet/timeline", title: "Machines" },
  { id: "fleet/offers", title: "Offers" },
  { id: "fleet/decisions", title: "Decisions" },
  { id: "fleet/plan", title: "What if" },
  { id: "fleet/batch-jobs", title: "Batch jobs" },
  { id: "costs", title: "Costs" },
  { id: "clusters/historical-usage", title: "Usage" },
  { id: "clusters/logs", title: "Master log" },
]);

export const FleetPage = component(
  /**
   * @param {object} props
   * @param {typeof TABS[number]["id"]} props.current
   * @param {string} props.title
   * @param {import("../html.js").Children} [props.controls]
   * @param {import("../html.js").Children} props.children
   */
  ({ current, title, controls, children }) =>
    h(
      "section",
      { class: "full" },
      Heading({ title, children: controls }),
      Tabs({ label: "Machines and money", tabs: TABS.map((tab) => ({ ...tab, href: href(tab.id) })), current }),
      children,
    ),
);
