// The notes of an experiment.

import { api, ok } from "../api.js";
import { shell } from "../format.js";
import { component, group, h } from "../html.js";
import { useRights } from "../rights.js";
import { Command } from "../widgets/command.js";
import { FormButton } from "../widgets/form.js";
import { Markdown } from "../widgets/markdown.js";

/** @typedef {import("../store.js").Schemas["Experiment"]} Experiment */

export const Notes = component(
  /** @param {{ experiment: Experiment, done: () => void }} props */
  ({ experiment: { id, notes, workspaceId }, done }) => {
    const may = useRights();
    return group(
      may("UPDATE_EXPERIMENT_METADATA", { workspace: workspaceId, anybody: true }) &&
        FormButton({
          verb: notes ? "Edit notes" : "Write notes",
          title: `Notes of experiment ${id}`,
          isMain: !notes,
          fields: [{ name: "notes", label: "Notes", value: notes, kind: "code", hint: "Markdown; HTML is not read" }],
          submit: (values) =>
            ok(
              api.PATCH("/api/v1/experiments/{experiment_id}", {
                params: { path: { experiment_id: id } },
                body: { notes: values.notes ?? "" },
              }),
            ),
          done,
        }),
      notes
        ? Markdown({ text: notes, label: "Notes" })
        : h("p", { class: "empty" }, "No notes yet: what was tried, what was found."),
      Command({ text: shell`det experiment describe ${id} --json` }),
    );
  },
);
