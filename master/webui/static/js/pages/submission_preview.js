// What would become of a configuration if it were submitted now: whether, where, when and at what price it would start.

import { count, duration } from "../format.js";
import { component, group, h } from "../html.js";
import { usd } from "../money.js";
import { ShortTable } from "../widgets/short_table.js";
import { Origins } from "./config_origins.js";

/** @typedef {import("../store.js").Schemas} Schemas */
/** @typedef {Schemas["AskedRuns"]} AskedRuns */

const WARNINGS = new Map([
  [
    "LAUNCH_WARNING_CURRENT_SLOTS_EXCEEDED",
    "It asks for more slots than the cluster has now: it would wait for capacity.",
  ],
]);

export const SubmissionPreview = component(
  /**
   * @param {object} props
   * @param {Schemas["ExperimentPreview"] | null} props.preview the newest
   * @param {Error | null} props.error why there is none
   * @param {boolean} props.isCurrent of what stands in the editor
   */
  ({ preview, error, isCurrent }) =>
    h(
      "section",
      { "aria-labelledby": "preview-title" },
      h("h2", { id: "preview-title" }, "If you submitted it now"),
      h(
        "p",
        { role: "status", class: error || preview?.problems.length ? "problem" : "note" },
        verdict(preview, error, isCurrent),
      ),
      preview && !error && !preview.problems.length && Accepted({ preview }),
    ),
);

/** @param {Schemas["ExperimentPreview"] | null} preview @param {Error | null} error @param {boolean} isCurrent */
function verdict(preview, error, isCurrent) {
  if (error) return error.message;
  if (!isCurrent || !preview) return "Checking…";
  const problems = preview.problems.length;
  return problems ? `It would be refused for ${count(problems, "problem")}.` : "It would be accepted.";
}

const Accepted = component(
  /** @param {{ preview: Schemas["ExperimentPreview"] }} props */
  ({ preview: { plan, trials, warnings, configWarnings, config, origins } }) =>
    group(
      [...warnings.map((one) => WARNINGS.get(one) ?? one), ...configWarnings].map((text) =>
        h("p", { key: text, class: "warning" }, text),
      ),
      plan && Start({ plan }),
      trials.length > 0 &&
        group(
          h("h3", null, "Trials"),
          h(
            "ul",
            { class: "items" },
            trials.map((one) => h("li", { key: `${one.unit.value}` }, length(one))),
          ),
        ),
      config && origins && group(h("h3", null, "Values, and where they come from"), Origins({ config, origins })),
      config &&
        h(
          "details",
          null,
          h("summary", null, "The whole configuration, as it would run"),
          h("pre", { tabIndex: 0, "aria-label": "Configuration as it would run" }, JSON.stringify(config, null, 2)),
        ),
    ),
);

const Start = component(
  /** @param {{ plan: Schemas["PlanReply"] }} props */
  ({ plan }) =>
    group(
      h("h3", null, "Where and when"),
      h(
        "ul",
        { class: "items" },
        plan.asked.map((asked) => {
          const runs = `${count(asked.runs, "run")} of ${count(asked.slots, "slot")} in pool ${asked.pool}`;
          const text = `${runs}: ${fate(asked)}`;
          return h("li", { key: text }, text);
        }),
      ),
      h("h3", null, "Price"),
      plan.launches.length
        ? group(
            ShortTable({
              label: "Machines that would be launched",
              rows: plan.launches,
              rowKey: ({ pool, offer }) => `${pool} ${offer}`,
              columns: [
                { title: "Machines", cell: (one) => `${one.machines} × ${one.offer}` },
                { title: "Slots", isNumber: true, cell: (one) => one.slots },
                { title: "An hour", isNumber: true, cell: (one) => usd(one.usdPerHour, 2), hint: "Of all of them" },
                { title: "Ready in", isNumber: true, cell: (one) => duration(one.readyInS) },
                {
                  title: "Runs of this",
                  isNumber: true,
                  cell: (one) => one.runsOfConfig,
                  hint: "They may hold other runs too",
                },
              ],
              empty: "",
            }),
            h("p", null, `Together ${usd(plan.usdPerHour, 2)} an hour, as long as they run.`),
          )
        : h("p", null, "No machine would be launched for it now."),
    ),
);

/** @param {AskedRuns} asked */
function fate({ outcome, reason, fallBack }) {
  if (outcome === "starts") return "now, on free slots";
  if (outcome === "launches") return "machines would be launched";
  const why = reason?.text ?? "waits";
  if (!fallBack) return why;
  const when = fallBack.afterS ? `after ${duration(fallBack.afterS)}` : "at once";
  const how = fallBack.outcome === "starts" ? "on free slots" : "where machines would be launched";
  return `${why}; ${when} in pool ${fallBack.pool}, ${how}`;
}

/** @param {Schemas["TrialSummary"]} summary */
function length({ count: trials, unit }) {
  const until = unit.maxLength
    ? `to ${trials === 1 ? "its" : "their"} own end`
    : `for ${unit.value} ${unit.name ?? "units"}`;
  return `${count(trials, "trial")} ${until}`;
}
