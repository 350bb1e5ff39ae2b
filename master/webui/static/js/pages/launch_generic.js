// Starting a generic task: its configuration, its files, its project.

import { useState } from "../../vendor/hooks.js";
import { api, ok } from "../api.js";
import { component, h } from "../html.js";
import { say } from "../store.js";
import { Dialog } from "../widgets/dialog.js";
import { Editor } from "../widgets/editor.js";
import { FolderInput, contentsOf, isTooLarge } from "../widgets/folder.js";
import { ProjectChoice } from "./new_places.js";

const FIRST = `entrypoint: [python3, main.py]
resources:
  slots: 1
`;

export const LaunchGeneric = component(
  /** @param {{ onClose: () => void, onLaunch: (id: string) => void }} props */
  ({ onClose, onLaunch }) => {
    const [text, setText] = useState(FIRST);
    const [project, setProject] = useState(0);
    const [folder, setFolder] = useState(/** @type {import("../widgets/folder.js").Folder | null} */ (null));
    const [state, setState] = useState({ isBusy: false, error: "" });
    const send = async (/** @type {SubmitEvent} */ event) => {
      event.preventDefault();
      setState({ isBusy: true, error: "" });
      try {
        const contextDirectory = folder ? await contentsOf(folder) : [];
        const body = { config: text, projectId: project, contextDirectory };
        const { taskId, configWarnings } = await ok(api.POST("/api/v1/generic-tasks", { body }));
        for (const warning of configWarnings) say(warning);
        onLaunch(taskId);
      } catch (error) {
        setState({ isBusy: false, error: error instanceof Error ? error.message : String(error) });
      }
    };
    return Dialog({
      title: "Start a generic task",
      onClose,
      children: h(
        "form",
        { class: "fields", onSubmit: send },
        Editor({ id: "config", label: "Configuration (YAML)", value: text, onChange: setText, rows: 10 }),
        ProjectChoice({ value: project, nothing: "Uncategorized", onChange: setProject }),
        FolderInput({ id: "folder", label: "A folder of files; may be left out", folder, onChange: setFolder }),
        state.error && h("p", { class: "problem", role: "alert" }, state.error),
        h(
          "p",
          { class: "buttons" },
          h("button", { type: "submit", disabled: state.isBusy || Boolean(folder && isTooLarge(folder)) }, "Start"),
        ),
      ),
    });
  },
);
