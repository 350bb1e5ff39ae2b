// What went wrong, in the master's words, and what can be done.

import { ApiError, AwayError } from "../api.js";
import { component, h } from "../html.js";
import { href } from "../router.js";

const TITLES = new Map([
  [403, "You may not see this"],
  [404, "Not found"],
]);

export const Problem = component(
  /** @param {{ error: Error, retry?: () => void }} props */
  ({ error, retry }) => {
    const isAway = error instanceof AwayError;
    const status = error instanceof ApiError ? error.status : 0;
    return h(
      "section",
      { class: "problem-box", role: "alert" },
      h("h2", null, isAway ? "The master does not answer" : (TITLES.get(status) ?? "This cannot be shown")),
      h("p", null, isAway ? "It is asked again until it does. What runs on agents goes on meanwhile." : error.message),
      h(
        "p",
        null,
        retry && h("button", { type: "button", class: "plain", onClick: retry }, "Try again"),
        " ",
        h("a", { href: href("dashboard") }, "Home"),
      ),
    );
  },
);
