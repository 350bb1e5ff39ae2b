// The parts of administration, above each of its pages.

import { component } from "../../html.js";
import { href } from "../../router.js";
import { Tabs } from "../../widgets/tabs.js";

const PARTS = /** @type {const} */ ([
  ["admin/users", "Users"],
  ["admin/groups", "Groups"],
  ["admin/roles", "Roles"],
  ["admin/tokens", "Tokens"],
  ["admin/sessions", "Sessions"],
  ["admin/audit", "Audit log"],
  ["templates", "Templates"],
  ["config-policies", "Policies"],
  ["webhooks", "Webhooks"],
  ["admin/settings", "Configuration"],
  ["admin/about", "About"],
]);

export const AdminNav = component(
  /** @param {{ current: typeof PARTS[number][0] }} props */
  ({ current }) =>
    Tabs({
      label: "Administration",
      current,
      tabs: PARTS.map(([path, title]) => ({ id: path, title, href: href(path) })),
    }),
);
