// What can be done to the selected rows of a list. Each row has its own answer.

import { useState } from "../../vendor/hooks.js";
import { component, h } from "../html.js";
import { say } from "../store.js";
import { Confirm } from "./dialog.js";

/** @typedef {{ id: number, error: string }} Result without an error it was done */

/**
 * @typedef {object} BulkAction
 * @property {string} verb
 * @property {(ids: number[]) => Promise<{ results: Result[] }>} act
 * @property {string} [asks] what it costs: it is asked about, however few they are
 */

/** Of more than these, each action is asked about with their number. */
const FEW = 20;
const MOST_SAID = 5;

export const BulkActions = component(
  /**
   * @param {object} props
   * @param {string} props.noun
   * @param {readonly BulkAction[]} props.actions
   * @param {ReadonlySet<string | number>} props.selected
   * @param {() => void} props.done
   * @param {number} [props.total] that the list finds
   * @param {() => Promise<unknown>} [props.selectAll] of these
   */
  ({ noun, actions, selected, done, total = 0, selectAll }) => {
    const [asked, ask] = useState(/** @type {BulkAction | null} */ (null));
    const [isBusy, setBusy] = useState(false);
    if (!selected.size) return null;
    const ids = [...selected].map(Number);
    const them = ids.length === 1 ? `${noun} ${ids[0]}` : `${ids.length.toLocaleString()} ${noun}s`;
    const during = async (/** @type {() => Promise<unknown>} */ work) => {
      setBusy(true);
      try {
        await work();
      } catch (error) {
        say(error instanceof Error ? error.message : String(error), "problem");
      }
      setBusy(false);
    };
    const act = async (/** @type {BulkAction} */ action) => {
      ask(null);
      await during(async () => tell(noun, (await action.act(ids)).results));
      done();
    };
    const button = (/** @type {string} */ text, /** @type {() => void} */ onClick) =>
      h("button", { key: text, type: "button", class: "plain", disabled: isBusy, onClick }, text);
    return h(
      "div",
      { class: "bar", role: "toolbar", "aria-label": `Of the selected ${noun}s` },
      actions.map((action) =>
        button(action.verb, () => (action.asks || ids.length > FEW ? ask(action) : void act(action))),
      ),
      selectAll && total > ids.length && button(`Select all ${total.toLocaleString()}`, () => void during(selectAll)),
      asked &&
        Confirm({
          title: `${asked.verb} ${them}?`,
          text: asked.asks ?? "Those that cannot be are left as they are, and named.",
          verb: asked.verb,
          onConfirm: () => void act(asked),
          onClose: () => ask(null),
        }),
    );
  },
);

/** What could not be done. @param {string} noun @param {Result[]} results */
function tell(noun, results) {
  const failed = results.filter(({ error }) => error);
  for (const { id, error } of failed.slice(0, MOST_SAID)) say(`${noun} ${id}: ${error}`, "problem");
  if (failed.length > MOST_SAID) say(`${failed.length - MOST_SAID} more could not be done.`, "problem");
}
