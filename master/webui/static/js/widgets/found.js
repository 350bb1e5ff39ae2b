// What the master finds by a name or an id, and the pages of what it found.

import { useEffect, useState } from "../../vendor/hooks.js";
import { api, ok } from "../api.js";
import { plain } from "../format.js";
import { pageOf } from "../places.js";
import { go } from "../router.js";

/** @typedef {import("../store.js").Schemas["FoundThing"]} Found */
/** @typedef {import("./palette.js").Entry} Entry */

const WAIT_MS = 150;
const MOST = 30;

/**
 * Asked when one has stopped typing.
 *
 * @param {string} text
 * @returns {{ entries: Entry[], note: string }}
 */
export function useFound(text) {
  const [state, set] = useState({ asked: "", entries: /** @type {Entry[]} */ ([]), note: "" });
  const asked = text.trim();
  useEffect(() => {
    if (!asked) return;
    const stop = new AbortController();
    const look = async () => {
      try {
        const query = { q: asked, limit: MOST };
        const { found, more } = await ok(
          api.GET("/api/v1/windlass/search", { params: { query }, signal: stop.signal }),
        );
        set({ asked, entries: found.map(entryOf), note: more ? `The first ${MOST}: type more of the name.` : "" });
      } catch (error) {
        if (stop.signal.aborted) return;
        set({ asked, entries: [], note: error instanceof Error ? error.message : String(error) });
      }
    };
    const timer = setTimeout(look, WAIT_MS);
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
  }, [asked]);
  if (!asked) return { entries: [], note: "" };
  return state.asked === asked ? state : { entries: [], note: "Searching…" };
}

/** @param {Found} found @returns {Entry} */
function entryOf({ kind, id, name, detail }) {
  const isNumbered = /^\d+$/.test(id) && kind !== "user" && kind !== "trial";
  return {
    title: plain(isNumbered ? `${id} ${name}` : name || id),
    note: plain(kind === "task" ? detail.toLowerCase() : [kind, detail].filter(Boolean).join(" · ")),
    act: () => go(pageOf(kind, id, name)),
  };
}
