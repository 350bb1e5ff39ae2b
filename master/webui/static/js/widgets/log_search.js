// Searching a log on the master: hits as they come, one after another, and how far it is.

import { useEffect, useRef, useState } from "../../vendor/hooks.js";
import { count, time } from "../format.js";
import { classes, component, group, h } from "../html.js";
import { bind } from "../keys.js";
import { go } from "../router.js";
import { LogText } from "./log_view.js";
import { Problem } from "./problem.js";

/** @typedef {import("../store.js").Schemas} Schemas */
/** @typedef {Schemas["LogSearchStep"]} Step */
/** @typedef {Schemas["NumberedLog"]} Hit */
/** @typedef {{ text: string, isRegex: boolean }} Wanted */
/** @typedef {(wanted: Wanted, signal: AbortSignal) => AsyncIterable<Step>} Search */

/**
 * @typedef {object} Found
 * @property {Hit[]} hits
 * @property {number} found also of those that are not listed
 * @property {number} looked
 * @property {number} total
 * @property {Map<string, number>} counts of hits, by the moment at which their part of time starts
 * @property {boolean} isOver
 * @property {Error | null} error
 */

/** @returns {Found} */
const nothing = () => ({ hits: [], found: 0, looked: 0, total: 0, counts: new Map(), isOver: false, error: null });
const SHOWN_CHARACTERS = 300;

/**
 * @param {string} topic
 * @param {Wanted} wanted no text: nothing is searched
 * @param {Search} search
 */
export function useLogSearch(topic, wanted, search) {
  const asked = `${topic} ${wanted.isRegex} ${wanted.text}`;
  const [state, setState] = useState({ asked, found: nothing() });
  const stopping = useRef(new AbortController());
  useEffect(() => {
    const stop = new AbortController();
    stopping.current = stop;
    const run = async () => {
      let found = nothing();
      try {
        for await (const step of search(wanted, stop.signal)) {
          if (stop.signal.aborted) break;
          const counts = new Map(found.counts);
          for (const { start, lines } of step.counts) counts.set(start, (counts.get(start) ?? 0) + lines);
          found = { ...found, ...step, counts, hits: [...found.hits, ...step.hits] };
          setState({ asked, found });
        }
      } catch (error) {
        if (!stop.signal.aborted) {
          found = { ...found, error: error instanceof Error ? error : new Error(String(error)) };
        }
      }
      if (stopping.current === stop) setState({ asked, found: { ...found, isOver: true } });
    };
    if (wanted.text) void run();
    return () => {
      stopping.current = new AbortController();
      stop.abort();
    };
  }, [asked]);
  return { found: state.asked === asked ? state.found : nothing(), stop: () => stopping.current.abort() };
}

/** What to search for; it is taken by Enter. */
export const SearchForm = component(
  /** @param {{ wanted: Wanted, onWanted: (wanted: Wanted) => void }} props */
  ({ wanted, onWanted }) => {
    const input = useRef(/** @type {HTMLInputElement | null} */ (null));
    const box = useRef(/** @type {HTMLInputElement | null} */ (null));
    const take = () => onWanted({ text: input.current?.value ?? "", isRegex: box.current?.checked ?? false });
    useEffect(() => {
      if (input.current) input.current.value = wanted.text;
      // Not as a property: that would be set again whenever the page is drawn, before it is taken.
      if (box.current) box.current.checked = wanted.isRegex;
    }, [wanted.text, wanted.isRegex]);
    return h(
      "form",
      {
        class: "bar search",
        role: "search",
        onSubmit: (event) => {
          event.preventDefault();
          take();
        },
      },
      h("input", {
        ref: input,
        id: "filter",
        type: "search",
        placeholder: "Search in the log (f)",
        "aria-label": "Search in the log",
      }),
      h(
        "label",
        { title: "In the syntax of RE2" },
        h("input", { ref: box, type: "checkbox", onChange: () => wanted.text && take() }),
        " regex",
      ),
      h("button", { type: "submit", class: "plain" }, "Search"),
    );
  },
);

/** The hits, with those before and after the line that is shown. */
export const Hits = component(
  /** @param {{ found: Found, stop: () => void, line: number, link: (line: Hit) => string }} props */
  ({ found, stop, line, link }) => {
    const { hits } = found;
    const next = hits.find((hit) => hit.number > line);
    const before = hits.filter((hit) => hit.number < line).at(-1);
    const show = (/** @type {Hit | undefined} */ hit) => hit && go(link(hit), { replace: true });
    useEffect(() => bind({ n: () => show(next), N: () => show(before) }), [next?.id, before?.id]);
    if (found.error) return Problem({ error: found.error });
    return group(
      h(
        "div",
        { class: "bar" },
        h("span", { role: "status" }, said(found)),
        h("button", { type: "button", class: "plain", disabled: !before, onClick: () => show(before) }, "previous (N)"),
        h("button", { type: "button", class: "plain", disabled: !next, onClick: () => show(next) }, "next (n)"),
        !found.isOver && h("button", { type: "button", class: "plain", onClick: stop }, "stop"),
      ),
      hits.length > 0 &&
        h(
          "ol",
          { class: "log-hits", "aria-label": "Hits", tabIndex: 0 },
          hits.map((hit) =>
            h(
              "li",
              { key: hit.id, class: classes(hit.number === line && "named") },
              h("a", { href: link(hit), title: time(hit.timestamp) }, `line ${hit.number.toLocaleString()}`),
              " ",
              h("span", { class: "log-text" }, LogText({ line: hit.log.slice(0, SHOWN_CHARACTERS) })),
            ),
          ),
        ),
    );
  },
);

/** @param {Found} found */
function said({ hits, found, looked, total, isOver }) {
  const listed = found > hits.length ? `, the first ${hits.length.toLocaleString()} are listed` : "";
  const far = isOver && looked >= total ? "" : ` in ${looked.toLocaleString()} of ${count(total, "line")}`;
  return `${count(found, "hit")}${listed}${far}`;
}
