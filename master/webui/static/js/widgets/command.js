// The `det` command that says or does the same.

import { component, h } from "../html.js";
import { say } from "../store.js";

export const Command = component(
  /** @param {{ text: string }} props */
  ({ text }) => {
    const copy = async () => {
      try {
        await navigator.clipboard.writeText(text);
        say("Copied.");
      } catch {
        say("This browser does not let pages copy here: select the text.", "problem");
      }
    };
    return h(
      "p",
      { class: "command" },
      h("code", null, text),
      " ",
      h("button", { type: "button", class: "plain", onClick: copy, "aria-label": `Copy ${text}` }, "copy"),
    );
  },
);
