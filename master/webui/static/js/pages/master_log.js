// The master's own log, as it comes: `clusters/logs`. It keeps its newest entries only, until it restarts.

import { api, int64, lines } from "../api.js";
import { component, group, h } from "../html.js";
import { address, choose } from "../router.js";
import { Command } from "../widgets/command.js";
import { LogView } from "../widgets/log_view.js";
import { FleetPage } from "./fleet_tabs.js";

/** @typedef {import("../store.js").Schemas["OwnLogEntry"]} Entry */
/** @typedef {import("../widgets/log_lines.js").Line} Line */

/** So many of the newest are looked at for what is new; more only if all of them are. */
const NEWEST = 500;

/**
 * Numbers of entries begin anew when the master does: the moment goes first.
 *
 * @param {Entry} entry
 * @returns {Line}
 */
function lineOf(entry) {
  return {
    id: String(int64(String(Date.parse(entry.timestamp))) * 100_000n + BigInt(entry.id % 100_000)),
    log: entry.message,
    message: entry.message,
    level: entry.level,
    timestamp: entry.timestamp,
    taskId: "",
    agentId: null,
    allocationId: null,
    containerId: null,
    rankId: null,
    source: null,
    stdtype: null,
  };
}

/**
 * @param {number} newest so many entries; 0: all that are kept
 * @param {AbortSignal} signal
 */
async function entries(newest, signal) {
  const call = api.GET("/api/v1/master/logs", {
    params: { query: newest ? { offset: -newest } : {} },
    parseAs: "text",
    signal,
  });
  const found = /** @type {{ logEntry: Entry }[]} */ (await lines(call));
  return found.map(({ logEntry }) => lineOf(logEntry));
}

/** @param {import("../widgets/log_view.js").Filter} filter @returns {import("../widgets/log_lines.js").Read} */
function reader({ text, level }) {
  const wanted = text.toLowerCase();
  const isWanted = (/** @type {Line} */ line) =>
    (!level || line.level === `LOG_LEVEL_${level}`) && line.log.toLowerCase().includes(wanted);
  return async ({ limit, descending, before, after, signal }) => {
    if (after) {
      let found = await entries(NEWEST, signal);
      if (found.length === NEWEST && (found[0]?.timestamp ?? "") > after) found = await entries(0, signal);
      return found.filter((line) => isWanted(line) && Date.parse(line.timestamp) > Date.parse(after));
    }
    const found = (await entries(text || level || before ? 0 : limit, signal)).filter(isWanted);
    const those = before ? found.filter((line) => Date.parse(line.timestamp) < Date.parse(before)) : found;
    const newest = those.slice(-limit);
    return descending ? newest.reverse() : newest;
  };
}

export default component(
  /** @param {import("../routes.js").PageProps} _props */
  (_props) => {
    const { query } = address.value;
    const filter = { text: query.get("search") ?? "", level: query.get("level") ?? "" };
    return FleetPage({
      current: "clusters/logs",
      title: "Log of the master",
      children: group(
        h("p", { class: "note" }, "The newest 10,000 entries since the master began. Secrets are masked."),
        LogView({
          topic: "log of the master",
          label: "Log of the master",
          filter,
          isOver: false,
          onFilter: ({ text, level }) => choose({ search: text, level }),
          read: reader,
        }),
        Command({ text: "det master logs --follow" }),
      ),
    });
  },
);
