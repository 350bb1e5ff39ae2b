// The notes of a project, each with a name.

import { api, ok } from "../api.js";
import { shell } from "../format.js";
import { component, h } from "../html.js";
import { useLive } from "../live.js";
import { useRights } from "../rights.js";
import { Act } from "../widgets/act.js";
import { Command } from "../widgets/command.js";
import { FormButton } from "../widgets/form.js";
import { Heading, isGone, pending } from "../widgets/page.js";
import { ProjectHead } from "./project_head.js";

/** @typedef {{ name: string, contents: string }} Note */

export default component(
  /** @param {import("../routes.js").PageProps} props */
  ({ params }) => {
    const id = Number(params.project);
    const may = useRights();
    const live = useLive(`workspaces: notes of project ${id}`, async (signal) =>
      ok(api.GET("/api/v1/projects/{id}", { params: { path: { id } }, signal })),
    );
    const project = live.data?.project;
    if (!project || isGone(live.error)) return pending(live);
    const notes = project.notes.map((one) => ({ name: String(one.name ?? ""), contents: String(one.contents ?? "") }));
    const isMine =
      !project.archived && may("UPDATE_PROJECT", { workspace: project.workspaceId, owner: project.userId });
    const put = (/** @type {Note[]} */ changed) =>
      ok(
        api.PUT("/api/v1/projects/{project_id}/notes", {
          params: { path: { project_id: id } },
          body: { notes: changed },
        }),
      );
    const fields = (/** @type {Note} */ note) => [
      { name: "name", label: "Name", value: note.name },
      { name: "contents", label: "Note", value: note.contents, kind: /** @type {const} */ ("code") },
    ];
    const noteOf = (/** @type {Record<string, string>} */ { name = "", contents = "" }) => ({ name, contents });
    return h(
      "section",
      null,
      Heading({ title: project.name }),
      ProjectHead({ project, current: "notes", done: live.refresh }),
      isMine &&
        FormButton({
          verb: "New note",
          title: "New note",
          isMain: true,
          fields: fields({ name: "", contents: "" }),
          submit: (values) =>
            ok(
              api.POST("/api/v1/projects/{project_id}/notes", {
                params: { path: { project_id: id } },
                body: noteOf(values),
              }),
            ),
          done: live.refresh,
        }),
      !notes.length && h("p", { class: "empty" }, "No notes yet: what the project is about, what was found."),
      notes.map((note, at) =>
        h(
          "article",
          { key: at },
          h("h2", null, note.name || `Note ${at + 1}`),
          h("pre", { tabIndex: 0, "aria-label": note.name || `Note ${at + 1}` }, note.contents),
          isMine &&
            h(
              "p",
              { class: "bar" },
              FormButton({
                verb: "Edit",
                title: `Edit ${note.name}`,
                fields: fields(note),
                submit: (values) => put(notes.map((one, index) => (index === at ? noteOf(values) : one))),
                done: live.refresh,
              }),
              Act({
                verb: "Delete",
                of: note.name,
                act: () => put(notes.filter((_, index) => index !== at)),
                done: live.refresh,
                question: { title: `Delete note ${note.name}?`, text: "This cannot be undone." },
              }),
            ),
        ),
      ),
      Command({ text: shell`det project describe ${project.workspaceName} ${project.name}` }),
    );
  },
);
