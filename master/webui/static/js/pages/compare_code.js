// What changes from one experiment to another: in the configuration, and in each file of the code.

import { api, ok } from "../api.js";
import { shell } from "../format.js";
import { component, group, h } from "../html.js";
import { useLive } from "../live.js";
import { address, choose } from "../router.js";
import { Command } from "../widgets/command.js";
import { Diff } from "../widgets/diff.js";
import { pending } from "../widgets/page.js";

/** @typedef {import("../store.js").Schemas["Experiment"]} Experiment */

export const CodeDifference = component(
  /** @param {{ experiments: Experiment[] }} props */
  ({ experiments }) => {
    const { query } = address.value;
    const ids = experiments.map((one) => one.id);
    const chosen = (/** @type {string} */ name, /** @type {number} */ usual) => {
      const given = Number(query.get(name));
      return ids.includes(given) ? given : (ids[usual] ?? 0);
    };
    const [from, to] = [chosen("from", 0), chosen("to", 1)];
    if (experiments.length < 2) return h("p", { class: "empty" }, "These are all of one experiment.");
    return h(
      "div",
      null,
      h(
        "form",
        { class: "bar", onSubmit: (event) => event.preventDefault() },
        Choice({ label: "From experiment", name: "from", value: from, experiments }),
        h("span", { "aria-hidden": true }, "→"),
        Choice({ label: "To experiment", name: "to", value: to, experiments }),
      ),
      Difference({ key: `${from} ${to}`, from, to }),
    );
  },
);

const Choice = component(
  /** @param {{ label: string, name: string, value: number, experiments: Experiment[] }} props */
  ({ label, name, value, experiments }) =>
    h(
      "select",
      {
        "aria-label": label,
        title: label,
        value: String(value),
        onChange: (event) => choose({ [name]: event.currentTarget.value }),
      },
      experiments.map((one) => h("option", { key: one.id, value: String(one.id) }, `${one.id} ${one.name}`)),
    ),
);

const Difference = component(
  /** @param {{ from: number, to: number }} props */
  ({ from, to }) => {
    const { data, error, refresh } = useLive(
      `me: difference of ${from} and ${to}`,
      (signal) =>
        ok(
          api.GET("/api/v1/windlass/experiments/{id}/difference", {
            params: { path: { id: from }, query: { otherId: to } },
            signal,
          }),
        ),
      { isOver: () => true },
    );
    if (!data) return pending({ error, refresh });
    const left = data.differing - data.files.length;
    return group(
      h("h2", null, "Configuration"),
      data.configuration
        ? Diff({ label: "the configuration", text: data.configuration })
        : h("p", { class: "empty" }, "The same, or too long to be compared by line: see the settings."),
      h("h2", null, "Code"),
      h(
        "p",
        { class: "note" },
        data.differing ? `${data.differing} of ${data.differing + data.same} files differ.` : "The code is the same.",
      ),
      data.files.map((file) =>
        h(
          "section",
          { key: file.path, class: "differing" },
          h("h3", null, h("code", null, file.path), ` ${file.change}`),
          file.whyNot
            ? h("p", { class: "note" }, `Not compared: ${file.whyNot}.`)
            : Diff({ label: file.path, text: file.diff }),
        ),
      ),
      left > 0 && h("p", { class: "note" }, `The first ${data.files.length} of those that differ.`),
      Command({ text: shell`det experiment compare ${from} ${to} --code` }),
    );
  },
);
