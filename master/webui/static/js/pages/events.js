// What happened to an experiment or a trial, the newest first.

import { api, ok } from "../api.js";
import { shell } from "../format.js";
import { component, group, h } from "../html.js";
import { href } from "../router.js";
import { Command } from "../widgets/command.js";
import { moment } from "../widgets/moment.js";
import { Table } from "../widgets/table.js";
import { useWindows } from "../widgets/windows.js";

/** @typedef {import("../store.js").Schemas["EventRow"]} EventRow */
/** @typedef {{ kind: "experiment" | "trial", id: number }} Of */

/** @type {import("../widgets/table.js").Column<EventRow>[]} */
const COLUMNS = [
  { id: "at", title: "When", width: "180px", cell: (one) => moment(one.at) },
  {
    id: "text",
    title: "What happened",
    width: "minmax(200px, 5fr)",
    cell: (one) =>
      h("span", { class: one.isProblem ? "problem" : "", title: one.text }, one.isProblem ? `✕ ${one.text}` : one.text),
  },
];

/** @type {import("../widgets/table.js").Column<EventRow>} */
const TRIAL = {
  id: "trial",
  title: "Trial",
  width: "90px",
  cell: (one) =>
    one.trialId === null ? "" : h("a", { href: href(`trials/${one.trialId}/events`), tabIndex: -1 }, one.trialId),
};

export const Events = component(
  /** @param {{ of: Of }} props */
  ({ of: { kind, id } }) => {
    const source = useWindows(`${kind} ${id}: events`, async (offset, limit, signal) => {
      const query = { offset, limit, orderBy: /** @type {const} */ ("ORDER_BY_DESC") };
      const found = await (kind === "trial"
        ? ok(
            api.GET("/api/v1/windlass/trials/{trial_id}/events", { params: { path: { trial_id: id }, query }, signal }),
          )
        : ok(
            api.GET("/api/v1/windlass/experiments/{experiment_id}/events", {
              params: { path: { experiment_id: id }, query },
              signal,
            }),
          ));
      return { rows: found.events, total: found.pagination.total };
    });
    return group(
      Table({
        label: "Events",
        columns: kind === "trial" ? COLUMNS : [...COLUMNS, TRIAL],
        source,
        rowKey: (one) => [one.at, one.kind, one.allocationId, one.checkpointUuid, one.trialId].join(" "),
        empty: "Nothing has happened yet.",
      }),
      Command({ text: kind === "trial" ? shell`det trial events ${id}` : shell`det experiment events ${id}` }),
    );
  },
);
