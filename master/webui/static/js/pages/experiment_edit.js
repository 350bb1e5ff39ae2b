// What is changed at one experiment: its name, description and labels, its project, what is kept of it; its deletion.

import { api, ok } from "../api.js";
import { count } from "../format.js";
import { component, h } from "../html.js";
import { useLive } from "../live.js";
import { useRights } from "../rights.js";
import { go, href } from "../router.js";
import { FormButton, words } from "../widgets/form.js";

/** @typedef {import("../store.js").Schemas["Experiment"]} Experiment */

const KEPT = /** @type {const} */ ([
  ["saveExperimentBest", "save_experiment_best", "Best of the experiment"],
  ["saveTrialBest", "save_trial_best", "Best of each trial"],
  ["saveTrialLatest", "save_trial_latest", "Newest of each trial"],
]);

/** Of one that has ended there are no such buttons where they could do nothing. */
export const Edits = component(
  /** @param {{ experiment: Experiment, isOver: boolean, done: () => void }} props */
  ({ experiment, isOver, done }) => {
    const { id, name, description, labels, workspaceId } = experiment;
    const may = useRights();
    const target = { workspace: workspaceId, anybody: true };
    const path = { experiment_id: id };
    const mayDelete = may("DELETE_EXPERIMENT", target);
    const isDeleting = experiment.state === "STATE_DELETING";
    return h(
      "div",
      { class: "bar", role: "toolbar", "aria-label": "Of the experiment" },
      may("UPDATE_EXPERIMENT_METADATA", target) &&
        FormButton({
          verb: "Edit",
          title: `Edit experiment ${id}`,
          fields: [
            { name: "name", label: "Name", value: name, required: true },
            { name: "description", label: "Description", value: description, kind: "area" },
            { name: "labels", label: "Labels", value: labels.join(", "), hint: "With commas between them" },
          ],
          submit: (values) =>
            ok(
              api.PATCH("/api/v1/experiments/{experiment_id}", {
                params: { path },
                body: {
                  name: values.name ?? "",
                  description: values.description ?? "",
                  labels: words(values.labels),
                },
              }),
            ),
          done,
        }),
      mayDelete && Move({ experiment, done }),
      may("UPDATE_EXPERIMENT", target) && [
        Keep({ key: "keep", experiment, done }),
        isOver && RetainLogs({ key: "logs", id, done }),
      ],
      mayDelete && isOver && !isDeleting && Delete({ experiment, done }),
    );
  },
);

const Move = component(
  /** @param {{ experiment: Experiment, done: () => void }} props */
  ({ experiment: { id, projectId }, done }) => {
    const projects = useLive(
      "workspaces: names of projects",
      async (signal) => {
        const query = { limit: 1000, archived: false };
        const path = { id: 0 };
        return (await ok(api.GET("/api/v1/workspaces/{id}/projects", { params: { path, query }, signal }))).projects;
      },
      { everyMs: 60_000 },
    ).data;
    const others = (projects ?? []).filter((one) => one.id !== projectId && !one.archived);
    if (!others.length) return null;
    return FormButton({
      verb: "Move",
      title: `Move experiment ${id}`,
      note: h("p", { class: "note" }, "Its runs get other local IDs."),
      fields: [
        {
          name: "destinationProjectId",
          label: "To project",
          options: others.map((one) => ({ value: String(one.id), text: `${one.workspaceName} / ${one.name}` })),
        },
      ],
      submit: ({ destinationProjectId }) =>
        ok(
          api.POST("/api/v1/experiments/{experiment_id}/move", {
            params: { path: { experiment_id: id } },
            body: { destinationProjectId: Number(destinationProjectId) },
          }),
        ),
      done,
    });
  },
);

const Keep = component(
  /** @param {{ experiment: Experiment, done: () => void }} props */
  ({ experiment: { id, config }, done }) => {
    const storage = /** @type {Record<string, unknown>} */ (config?.checkpoint_storage ?? {});
    const kept = (/** @type {string} */ name) => String(storage[name] ?? "");
    return FormButton({
      verb: "Keep checkpoints",
      title: `Which checkpoints of experiment ${id} are kept`,
      note: h("p", { class: "note" }, "What is not kept is deleted, now or when the experiment ends."),
      fields: KEPT.map(([field, name, label]) => ({
        name: field,
        label,
        kind: /** @type {const} */ ("number"),
        min: 0,
        required: true,
        value: kept(name),
      })),
      submit: (values) =>
        ok(
          api.PATCH("/api/v1/experiments/{experiment_id}", {
            params: { path: { experiment_id: id } },
            body: { checkpointStorage: Object.fromEntries(KEPT.map(([field]) => [field, Number(values[field])])) },
          }),
        ),
      done,
    });
  },
);

const RetainLogs = component(
  /** @param {{ id: number, done: () => void }} props */
  ({ id, done }) =>
    FormButton({
      verb: "Retain logs",
      title: `How long logs of experiment ${id} are kept`,
      fields: [
        {
          name: "numDays",
          label: "Days after the end of a trial",
          kind: "number",
          min: -1,
          required: true,
          hint: "-1: for ever",
        },
      ],
      submit: ({ numDays }) =>
        ok(
          api.PUT("/api/v1/experiments/{experiment_id}/retain_logs", {
            params: { path: { experiment_id: id } },
            body: { numDays: Number(numDays) },
          }),
        ),
      done,
    }),
);

const Delete = component(
  /** @param {{ experiment: Experiment, done: () => void }} props */
  ({ experiment: { id, name, numTrials, checkpointCount, projectId }, done }) =>
    FormButton({
      verb: "Delete",
      title: `Delete experiment ${id}?`,
      note: h(
        "p",
        null,
        `${count(numTrials, "trial")} and ${count(checkpointCount, "checkpoint")} go with it, and all metrics, logs ` +
          "and TensorBoard files, for ever.",
      ),
      fields: [{ name: "name", label: "Type its name to delete it", hint: name, required: true }],
      submit: async (values) => {
        if (values.name?.trim() !== name.trim()) throw new Error(`name: it is not ${name}`);
        await ok(api.DELETE("/api/v1/experiments/{experiment_id}", { params: { path: { experiment_id: id } } }));
        go(href(`projects/${projectId}/experiments`));
      },
      done,
    }),
);
