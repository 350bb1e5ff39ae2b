// What happened, in a corner, until it is read.

import { component, h } from "../html.js";
import { dismiss, notices } from "../store.js";

export const Notices = component(() =>
  h(
    "div",
    { class: "notices", role: "status" },
    notices.value.map(({ id, text, kind }) =>
      h(
        "p",
        { key: id, class: `notice ${kind}` },
        h("span", null, text),
        h("button", { type: "button", class: "plain", onClick: () => dismiss(id), "aria-label": "Dismiss" }, "✕"),
      ),
    ),
  ),
);
