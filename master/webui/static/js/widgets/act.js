// A button that does something, after a question if it cannot be undone; what is refused is said in a corner.

import { useState } from "../../vendor/hooks.js";
import { component, group, h } from "../html.js";
import { say } from "../store.js";
import { Confirm } from "./dialog.js";

/**
 * @typedef {object} ActProps
 * @property {string} verb
 * @property {() => Promise<unknown>} act
 * @property {() => void} [done] after it, also after a refusal
 * @property {string} [of] what it is done to, for screen readers where the verb stands in each row
 * @property {string} [said] what to say when it is done
 * @property {string} [hint] what it does, in a tool tip
 * @property {{ title: string, text: string }} [question]
 */

export const Act = component(
  /** @param {ActProps} props */
  ({ verb, act, done, of, said, hint, question }) => {
    const [state, setState] = useState({ isAsked: false, isBusy: false });
    const begin = async () => {
      setState({ isAsked: false, isBusy: true });
      try {
        await act();
        if (said) say(said);
      } catch (error) {
        say(error instanceof Error ? error.message : String(error), "problem");
      }
      setState({ isAsked: false, isBusy: false });
      done?.();
    };
    return group(
      h(
        "button",
        {
          type: "button",
          class: "plain",
          title: hint,
          disabled: state.isBusy,
          "aria-label": of ? `${verb} ${of}` : undefined,
          onClick: () => (question ? setState({ isAsked: true, isBusy: false }) : void begin()),
        },
        verb,
      ),
      state.isAsked &&
        question &&
        Confirm({
          ...question,
          verb,
          onConfirm: () => void begin(),
          onClose: () => setState({ isAsked: false, isBusy: false }),
        }),
    );
  },
);
