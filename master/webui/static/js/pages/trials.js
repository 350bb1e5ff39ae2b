// The trials of an experiment, by any column.

import { useState } from "../../vendor/hooks.js";
import { api, number, ok } from "../api.js";
import { shell, value } from "../format.js";
import { component, h } from "../html.js";
import { address, choose, href } from "../router.js";
import { Command } from "../widgets/command.js";
import { moment } from "../widgets/moment.js";
import { State } from "../widgets/state.js";
import { Table } from "../widgets/table.js";
import { useWindows } from "../widgets/windows.js";
import { CompareButton } from "./compare_button.js";

/** @typedef {import("../store.js").Schemas["Experiment"]} Experiment */
/** @typedef {import("../store.js").Schemas["Trial"]} Trial */
/** @typedef {import("../openapi.js").operations} Operations */
/** @typedef {NonNullable<Operations["experiments_list_trials"]["parameters"]["query"]>} Query */

/** @param {Experiment} experiment @returns {import("../widgets/table.js").Column<Trial>[]} */
function columnsOf(experiment) {
  const swept = Object.entries(experiment.hyperparameters)
    .filter(([, one]) => isSearched(one))
    .map(([name]) => name);
  const metric = experiment.searcherMetric ?? "metric";
  return [
    { id: "id", title: "Trial", width: "70px", sort: "SORT_BY_ID", cell: (one) => one.id },
    {
      id: "state",
      title: "State",
      width: "130px",
      sort: "SORT_BY_STATE",
      cell: (one) => State({ state: one.state, reason: one.waitingReason ?? (one.error || null) }),
    },
    {
      id: "best",
      title: `Best ${metric}`,
      width: "130px",
      isNumber: true,
      hint: "The best value of the searcher's metric",
      sort: "SORT_BY_BEST_VALIDATION_METRIC",
      cell: (one) => value(number(one.searcherMetricValue)),
    },
    ...swept.map((name) => ({
      id: `hp.${name}`,
      title: name,
      isNumber: true,
      width: "minmax(90px, 1fr)",
      cell: (/** @type {Trial} */ one) => value(one.hparams[name]),
    })),
    {
      id: "steps",
      title: "Steps",
      width: "80px",
      isNumber: true,
      hint: "Completed, as training code reported",
      sort: "SORT_BY_BATCHES_PROCESSED",
      cell: (one) => one.totalBatchesProcessed,
    },
    {
      id: "restarts",
      title: "Restarts",
      width: "80px",
      isNumber: true,
      isMinor: true,
      hint: "After failures of its own",
      sort: "SORT_BY_RESTARTS",
      cell: (one) => one.restarts,
    },
    {
      id: "start",
      title: "Started",
      width: "160px",
      isMinor: true,
      sort: "SORT_BY_START_TIME",
      cell: (one) => moment(one.startTime),
    },
  ];
}

/** @param {unknown} one */
function isSearched(one) {
  return typeof one === "object" && one !== null && "type" in one && one.type !== "const";
}

export const Trials = component(
  /** @param {{ experiment: Experiment }} props */
  ({ experiment }) => {
    const { query } = address.value;
    const [selected, setSelected] = useState(/** @type {ReadonlySet<string | number>} */ (new Set()));
    const sort = { by: query.get("sort") ?? "SORT_BY_ID", descending: query.get("order") === "down" };
    const source = useWindows(
      `trials ${experiment.id} + queue: ${sort.by} ${sort.descending}`,
      async (offset, limit, signal) => {
        const asked = {
          offset,
          limit,
          sortBy: /** @type {Query["sortBy"]} */ (sort.by),
          orderBy: /** @type {Query["orderBy"]} */ (sort.descending ? "ORDER_BY_DESC" : "ORDER_BY_ASC"),
        };
        const found = await ok(
          api.GET("/api/v1/experiments/{experiment_id}/trials", {
            params: { path: { experiment_id: experiment.id }, query: asked },
            signal,
          }),
        );
        return { rows: found.trials, total: found.pagination.total };
      },
    );
    return h(
      "div",
      { class: "fills" },
      CompareButton({ kind: "trials", selected }),
      Table({
        label: "Trials",
        columns: columnsOf(experiment),
        source,
        rowKey: (one) => one.id,
        link: (one) => href(`experiments/${experiment.id}/trials/${one.id}`),
        sort,
        onSort: ({ by, descending }) => choose({ sort: by, order: descending ? "down" : "" }),
        selected,
        onSelect: setSelected,
        empty: h("p", null, "No trials yet: the searcher makes them when the experiment begins."),
      }),
      Command({ text: shell`det experiment list-trials ${experiment.id}` }),
    );
  },
);
