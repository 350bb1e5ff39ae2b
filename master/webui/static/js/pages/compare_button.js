// From a list to the page that compares what is selected there: a link, and the key `c`.

import { useEffect } from "../../vendor/hooks.js";
import { component, h } from "../html.js";
import { bind } from "../keys.js";
import { go, href } from "../router.js";
import { say } from "../store.js";

/** The master compares no more at once. */
export const MOST = 100;

export const CompareButton = component(
  /** @param {{ kind: "experiments" | "trials", selected: ReadonlySet<string | number> }} props */
  ({ kind, selected }) => {
    const page = href("compare", { [kind]: [...selected].join(",") });
    const problem =
      selected.size < 2
        ? `Select at least two ${kind} to compare: x selects.`
        : selected.size > MOST
          ? `${selected.size} ${kind} are selected: at most ${MOST} are compared.`
          : "";
    useEffect(() => bind({ c: () => (problem ? say(problem) : go(page)) }), [page, problem]);
    if (problem) return null;
    return h("a", { href: page, class: "button" }, `Compare ${selected.size} ${kind} (c)`);
  },
);
