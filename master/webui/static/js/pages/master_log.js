// The master's own log, as it comes: `clusters/logs`. It keeps its newest entries only, until it restarts.

import { api, int64, lines } from "../api.js";
import { component, group, h } from "../html.js";
import { address, choose } from "../router.js";
import { Command } from "../widgets/command.js";
import { LogView } from "../widgets/log_view.js";
import { Typed } from "../widgets/typed.js";
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

/** @typedef {{ text: string, level: string }} Wanted */

/** @param {Wanted} wanted @returns {import("../widgets/log_lines.js").Read} */
function reader({ text, level }) {
  const part = text.toLowerCase();
  const isWanted = (/** @type {Line} */ line) =>
    (!level || line.level === `LOG_LEVEL_${level}`) && line.log.toLowerCase().includes(part);
  return async ({ id, since, before, after, signal }) => {
    let all = await entries(since ? NEWEST : 0, signal);
    if (since && all.length === NEWEST && int64(all[0]?.id ?? "0") > int64(since)) all = await entries(0, signal);
    const newestId = all.at(-1)?.id ?? "0";
    const found = all.filter(isWanted);
    const total = found.length;
    if (since) {
      return { lines: found.filter((line) => int64(line.id) > int64(since)).slice(-after), total, newestId };
    }
    const at = id ? found.findIndex((line) => line.id === id) : total;
    return { lines: found.slice(Math.max(0, at - before), at + (id ? after + 1 : 0)), total, newestId };
  };
}

export default component(
  /** @param {import("../routes.js").PageProps} _props */
  (_props) => {
    const { query } = address.value;
    const wanted = { text: query.get("search") ?? "", level: query.get("level") ?? "" };
    return FleetPage({
      current: "clusters/logs",
      title: "Log of the master",
      children: group(
        h("p", { class: "note" }, "The newest 10,000 entries since the master began. Secrets are masked."),
        LogView({
          topic: `log of the master ${wanted.level} ${wanted.text}`,
          label: "Log of the master",
          filter: { level: wanted.level },
          isOver: false,
          onLevel: (level) => choose({ level }),
          read: reader(wanted),
          tools: Typed({
            value: wanted.text,
            onChange: (text) => choose({ search: text }),
            attributes: {
              id: "filter",
              type: "search",
              placeholder: "Search in the log (f)",
              "aria-label": "Search in the log",
            },
          }),
        }),
        Command({ text: "det master logs --follow" }),
      ),
    });
  },
);
