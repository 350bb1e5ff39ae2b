// What would become of a configuration if it were submitted now: whether, where, when and at what price it would start.

import { count } from "../format.js";
import { component, group, h } from "../html.js";
import { Origins } from "./config_origins.js";
import { Launches, fateOf, runsOf } from "./plan_parts.js";

/** @typedef {import("../store.js").Schemas} Schemas */

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
          const text = `${runsOf(asked)}: ${fateOf(asked)}`;
          return h("li", { key: text }, text);
        }),
      ),
      h("h3", null, "Machines, and their price"),
      Launches({
        plan,
        more: [
          {
            title: "Of them this",
            isNumber: true,
            hint: "Runs of this experiment; the machines may hold other runs too",
            cell: (one) => one.runsOfConfig,
          },
        ],
      }),
    ),
);

/** @param {Schemas["TrialSummary"]} summary */
function length({ count: trials, unit }) {
  const until = unit.maxLength
    ? `to ${trials === 1 ? "its" : "their"} own end`
    : `for ${unit.value} ${unit.name ?? "units"}`;
  return `${count(trials, "trial")} ${until}`;
}
