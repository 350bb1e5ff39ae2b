// The log of a trial, for the pages of trials and experiments.

import { api, lines } from "../api.js";
import { shell } from "../format.js";
import { component, group } from "../html.js";
import { address, choose } from "../router.js";
import { Command } from "../widgets/command.js";
import { LogView } from "../widgets/log_view.js";

/** @typedef {import("../store.js").Schemas["TrialLog"]} TrialLog */
/** @typedef {NonNullable<import("../openapi.js").operations["logs_of_trial"]["parameters"]["query"]>} Query */

/**
 * What the API is asked for a part of a log, of a trial or of any task.
 *
 * @param {{ text: string, level: string }} filter
 * @param {{ limit: number, descending: boolean, before?: string | undefined, after?: string | undefined }} part
 * @returns {Query}
 */
export function logQuery({ text, level }, { limit, descending, before, after }) {
  return {
    limit,
    orderBy: descending ? "ORDER_BY_DESC" : "ORDER_BY_ASC",
    ...(text ? { searchText: text } : {}),
    ...(level ? { levels: /** @type {Query["levels"]} */ ([`LOG_LEVEL_${level}`]) } : {}),
    ...(before ? { timestampBefore: before } : {}),
    ...(after ? { timestampAfter: after } : {}),
  };
}

export const TrialLogs = component(
  /** @param {{ trial: number, isOver: boolean }} props */
  ({ trial, isOver }) => {
    const { query } = address.value;
    const filter = { text: query.get("search") ?? "", level: query.get("level") ?? "" };
    return group(
      LogView({
        topic: `log of trial ${trial}`,
        label: `Log of trial ${trial}`,
        filter,
        isOver,
        onFilter: ({ text, level }) => choose({ search: text, level }),
        read:
          (filter) =>
          async ({ signal, ...part }) => {
            const call = api.GET("/api/v1/trials/{trial_id}/logs", {
              params: { path: { trial_id: trial }, query: logQuery(filter, part) },
              parseAs: "text",
              signal,
            });
            return /** @type {TrialLog[]} */ (await lines(call));
          },
      }),
      Command({ text: shell`det trial logs ${trial}` }),
    );
  },
);
