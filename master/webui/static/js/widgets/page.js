// What most pages begin with: the title, in the tab too, what can be done, and the parts of the page.

import { useEffect } from "../../vendor/hooks.js";
import { ApiError } from "../api.js";
import { component, h } from "../html.js";
import { Problem } from "./problem.js";
import { Typed } from "./typed.js";

/** @typedef {import("../html.js").Children} Children */

export const Heading = component(
  /** @param {{ title: string, children?: Children }} props */
  ({ title, children }) => {
    useEffect(() => void (document.title = `${title} · Windlass`), [title]);
    return h("div", { class: "title" }, h("h1", null, title), children);
  },
);

/** What is shown before there is an answer. @param {{ error: Error | null, refresh: () => void }} live */
export function pending({ error, refresh }) {
  return error ? Problem({ error, retry: refresh }) : h("p", { class: "note", role: "status" }, "Loading…");
}

/** Whether what was shown has been deleted meanwhile. @param {Error | null} error */
export function isGone(error) {
  return error instanceof ApiError && error.status === 404;
}

/** A field that finds by name, in the address. */
export const Search = component(
  /** @param {{ label: string, value: string, onChange: (value: string) => void }} props */
  ({ label, value, onChange }) =>
    Typed({
      value,
      onChange,
      attributes: { id: "filter", type: "search", placeholder: `${label} (f)`, "aria-label": label },
    }),
);
