// One version of a model: its notes, where it comes from, its metrics, how to download it.

import { api, number, ok } from "../api.js";
import { bytes, shell, stateName, value } from "../format.js";
import { component, h } from "../html.js";
import { useLive } from "../live.js";
import { useRights } from "../rights.js";
import { go, href } from "../router.js";
import { Act } from "../widgets/act.js";
import { Command } from "../widgets/command.js";
import { Facts } from "../widgets/facts.js";
import { FormButton, words } from "../widgets/form.js";
import { moment } from "../widgets/moment.js";
import { Heading, pending } from "../widgets/page.js";
import { ShortTable } from "../widgets/short_table.js";
import { MetricCharts } from "./metrics.js";

/** @typedef {import("../store.js").Schemas["ModelVersion"]} ModelVersion */

export default component(
  /** @param {import("../routes.js").PageProps} props */
  ({ params }) => {
    const path = { model_name: params.model ?? "", model_version_num: Number(params.version) };
    const live = useLive(`models: version ${path.model_version_num} of ${path.model_name}`, async (signal) =>
      ok(api.GET("/api/v1/models/{model_name}/versions/{model_version_num}", { params: { path }, signal })),
    );
    const version = live.data?.modelVersion;
    if (!version) return pending(live);
    const { model, checkpoint } = version;
    const { training } = checkpoint;
    const size = Object.values(checkpoint.resources).reduce((sum, one) => sum + (number(one) ?? 0), 0);
    return h(
      "section",
      null,
      h("p", { class: "above" }, h("a", { href: href(`models/${model.id}`) }, `Model ${model.name}`)),
      Heading({
        title: `${model.name} ${version.version}${version.name ? `: ${version.name}` : ""}`,
        children: Actions({ version, done: live.refresh }),
      }),
      version.comment && h("p", null, version.comment),
      Facts({
        facts: [
          ["Registered by", version.username],
          ["Registered", moment(version.creationTime)],
          ["Labels", version.labels.join(", ")],
          [
            "Experiment",
            training.experimentId === null
              ? ""
              : h("a", { href: href(`experiments/${training.experimentId}`) }, `experiment ${training.experimentId}`),
          ],
          [
            "Trial",
            training.trialId === null
              ? ""
              : h("a", { href: href(`trials/${training.trialId}`) }, `trial ${training.trialId}`),
          ],
          ["Checkpoint", h("code", null, checkpoint.uuid)],
          ["State", stateName(checkpoint.state)],
          ["Size", `${bytes(size)} in ${Object.keys(checkpoint.resources).length} files`],
          ["Metadata", Object.keys(version.metadata).length ? value(version.metadata) : ""],
        ],
      }),
      version.notes && h("pre", { tabIndex: 0, "aria-label": "Notes" }, version.notes),
      h("h2", null, "Metrics at the checkpoint"),
      Metrics({ training }),
      training.trialId !== null && TrialCurves({ key: training.trialId, trial: training.trialId }),
      h("h2", null, "Download"),
      Command({ text: shell`det checkpoint download ${checkpoint.uuid}` }),
      Command({ text: shell`det model describe ${model.id} --version ${version.version}` }),
    );
  },
);

const Metrics = component(
  /** @param {{ training: ModelVersion["checkpoint"]["training"] }} props */
  ({ training }) => {
    const rows = [
      ...Object.entries(training.validationMetrics?.avgMetrics ?? {}).map(([name, of]) => ["validation", name, of]),
      ...Object.entries(training.trainingMetrics?.avgMetrics ?? {}).map(([name, of]) => ["training", name, of]),
    ];
    return ShortTable({
      label: "Metrics at the checkpoint",
      rows,
      rowKey: ([group, name]) => `${group} ${name}`,
      columns: [
        { title: "Metric", cell: ([, name]) => String(name) },
        { title: "Group", cell: ([group]) => String(group) },
        { title: "Value", isNumber: true, hint: "Reported with the checkpoint's step", cell: ([, , of]) => value(of) },
      ],
      empty: "The trial reported no metrics for this checkpoint's step.",
    });
  },
);

const TrialCurves = component(
  /** @param {{ trial: number }} props */
  ({ trial }) => {
    const { data } = useLive(
      `trial ${trial}: of a version`,
      async (signal) =>
        (await ok(api.GET("/api/v1/trials/{trial_id}", { params: { path: { trial_id: trial } }, signal }))).trial,
      { everyMs: 60_000 },
    );
    return data && MetricCharts({ trials: [data], best: null, isOver: true });
  },
);

const Actions = component(
  /** @param {{ version: ModelVersion, done: () => void }} props */
  ({ version, done }) => {
    const may = useRights();
    const { model } = version;
    const params = { path: { model_name: String(model.id), model_version_num: version.version } };
    return h(
      "div",
      { class: "bar", role: "toolbar", "aria-label": "Of the version" },
      may("EDIT_MODEL_REGISTRY", { workspace: model.workspaceId, owner: model.userId }) &&
        FormButton({
          verb: "Edit",
          title: `Edit version ${version.version}`,
          fields: [
            { name: "name", label: "Name", value: version.name },
            { name: "comment", label: "Comment", value: version.comment, kind: "area" },
            { name: "labels", label: "Labels", value: version.labels.join(", "), hint: "With commas between them" },
            { name: "notes", label: "Notes", value: version.notes, kind: "code" },
          ],
          submit: ({ labels, ...rest }) =>
            ok(
              api.PATCH("/api/v1/models/{model_name}/versions/{model_version_num}", {
                params,
                body: { ...rest, labels: words(labels) },
              }),
            ),
          done,
        }),
      may("DELETE_MODEL_VERSION", { workspace: model.workspaceId, owner: version.userId }) &&
        Act({
          verb: "Delete",
          act: async () => {
            await ok(api.DELETE("/api/v1/models/{model_name}/versions/{model_version_num}", { params }));
            go(href(`models/${model.id}`));
          },
          question: {
            title: `Delete version ${version.version} of ${model.name}?`,
            text: "Its checkpoint stays. This cannot be undone.",
          },
        }),
    );
  },
);
