// Why a job waits, what would help, when it should start, and what it holds: what `det job explain` says.

import { api, ok } from "../api.js";
import { count, shell, stateName, time } from "../format.js";
import { component, h } from "../html.js";
import { useLive } from "../live.js";
import { href } from "../router.js";
import { Command } from "../widgets/command.js";
import { Facts } from "../widgets/facts.js";
import { moment } from "../widgets/moment.js";
import { pending } from "../widgets/page.js";
import { State } from "../widgets/state.js";

/** @typedef {import("../store.js").Schemas} Schemas */
/** @typedef {Schemas["ExplanationReply"]} Explanation */

/** @param {string} jobId */
export function useExplanation(jobId) {
  return useLive(`queue: job ${jobId}`, (signal) =>
    ok(api.GET("/api/v1/windlass/jobs/{job_id}/explain", { params: { path: { job_id: jobId } }, signal })),
  );
}

export const Why = component(
  /** @param {{ jobId: string }} props */
  ({ jobId }) => {
    const { data, error, refresh } = useExplanation(jobId);
    if (!data) return pending({ error, refresh });
    return Explained({ explanation: data });
  },
);

export const Explained = component(
  /** @param {{ explanation: Explanation }} props */
  ({ explanation: { job, text, waiting, waitingTotal, holding, lastRelease } }) =>
    h(
      "div",
      null,
      h("p", null, Owner({ job }), ` ${text}.`),
      lastRelease && h("p", { class: "note" }, `Last preemption: ${lastRelease}`),
      waiting.map((one) => Waiting({ key: one.allocationId, one })),
      waitingTotal > waiting.length &&
        h("p", { class: "note" }, `${count(waitingTotal - waiting.length, "more request")} of it waiting.`),
      holding.map((one) => Holding({ key: one.allocationId, one })),
      Command({ text: shell`det job explain ${job.jobId}` }),
    ),
);

/** What the job is of, with a link where that has a page. */
export const Owner = component(
  /** @param {{ job: Schemas["Job"] }} props */
  ({ job }) => {
    const title = `${stateName(job.type.replace("TYPE_", ""))} ${job.entityId}`;
    return job.type === "TYPE_EXPERIMENT"
      ? h("a", { href: href(`experiments/${job.entityId}`) }, title)
      : h("a", { href: href(`tasks/${encodeURIComponent(job.entityId)}/logs`) }, title);
  },
);

const Waiting = component(
  /** @param {{ one: Schemas["WaitingAllocation"] }} props */
  ({ one }) =>
    h(
      "section",
      null,
      h("h2", null, `${one.name} waits`),
      h("p", null, one.reason?.text ?? ""),
      Facts({
        facts: [
          ["What would help", one.advice],
          ["Slots", one.slots, "Slots that it asks for"],
          ["Waiting since", moment(one.since)],
          [
            "Expected start",
            one.expectedStart ? moment(one.expectedStart) : "unknown: it depends on work without a known run time",
            "From the run times that jobs before it were submitted with",
          ],
        ],
      }),
    ),
);

const Holding = component(
  /** @param {{ one: Schemas["HoldingAllocation"] }} props */
  ({ one }) => {
    const places = Object.entries(one.agents);
    return h(
      "section",
      null,
      h("h2", null, `${one.name} holds ${count(one.slots, "slot")} `, State({ state: one.state })),
      one.releasing && h("p", { class: "note" }, "It was asked to give its slots back, and is being preempted."),
      one.fellBack && h("p", { class: "note" }, `It runs in pool ${one.resourcePool}: ${one.fellBack}`),
      h(
        "ul",
        { class: "items" },
        places.map(([agent, slots]) =>
          h(
            "li",
            { key: agent },
            h("a", { href: href(`agents/${encodeURIComponent(agent)}`) }, agent),
            `: ${count(slots, "slot")}`,
          ),
        ),
      ),
      h("p", { class: "note" }, one.since ? `Since ${time(one.since)}.` : "It is being started."),
    );
  },
);
