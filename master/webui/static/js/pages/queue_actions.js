// What can be done to a job of a queue: it is moved past another, or served earlier, by buttons and by keys.

import { useLayoutEffect, useState } from "../../vendor/hooks.js";
import { api, ok } from "../api.js";
import { component, h } from "../html.js";
import { bind } from "../keys.js";
import { say } from "../store.js";
import { Dialog } from "../widgets/dialog.js";
import { Form } from "../widgets/form.js";

/** @typedef {import("../store.js").Schemas} Schemas */
/** @typedef {import("./queue.js").Queued} Queued */
/** @typedef {import("../widgets/windows.js").Source<Queued>} Source */

/** @param {string} jobId @param {Omit<Schemas["QueueControl"], "jobId">} change */
async function update(jobId, change) {
  await ok(api.POST("/api/v1/job-queues", { body: { updates: [{ jobId, ...change }] } }));
}

/**
 * The next one in this direction that has a place which can be taken: jobs of a batch system's other users have none.
 *
 * @param {Source} source
 * @param {number} index
 * @param {-1 | 1} step
 */
function neighbour(source, index, step) {
  for (let at = index + step; at >= 0 && at < (source.total ?? 0); at += step) {
    const job = source.row(at)?.job;
    if (!job) return null;
    if (job.type !== "TYPE_EXTERNAL") return job.jobId;
  }
  return null;
}

export const JobActions = component(
  /** @param {{ jobId: string, pool: Schemas["ResourcePool"], source: Source, done: () => void }} props */
  ({ jobId, pool, source, done }) => {
    const [isAsking, ask] = useState(false);
    const queued = find(source, jobId);
    const hasPlaces = pool.schedulerType === "SCHEDULER_TYPE_PRIORITY";
    const hasShares = pool.schedulerType === "SCHEDULER_TYPE_FAIR_SHARE";
    const isOurs = queued !== null && queued.job.type !== "TYPE_EXTERNAL";
    const index = queued ? queued.position - 1 : 0;
    const earlier = isOurs && hasPlaces ? neighbour(source, index, -1) : null;
    const later = isOurs && hasPlaces ? neighbour(source, index, 1) : null;
    const first = isOurs && hasPlaces && earlier ? neighbour(source, -1, 1) : null;
    const act = async (/** @type {Omit<Schemas["QueueControl"], "jobId">} */ change) => {
      try {
        await update(jobId, change);
      } catch (error) {
        say(error instanceof Error ? error.message : String(error), "problem");
      }
      done();
    };
    const up = () => earlier && void act({ aheadOf: earlier });
    const down = () => later && void act({ behindOf: later });
    const change = () => isOurs && (hasPlaces || hasShares) && ask(true);
    useLayoutEffect(() =>
      bind({ u: up, d: down, p: change, ".": () => document.getElementById("job-actions")?.focus() }),
    );
    if (!queued)
      return h("p", { class: "note", role: "status" }, "The job is not in sight, or no longer in this queue.");
    if (!isOurs) return h("p", { class: "note" }, "It is a job of the batch system, which alone can move it.");
    if (!hasPlaces && !hasShares)
      return h("p", { class: "note" }, `Pool ${pool.name} keeps no order of jobs that could be changed here.`);
    const button = (/** @type {string} */ text, /** @type {() => void} */ press, /** @type {boolean} */ may) =>
      h("button", { key: text, type: "button", class: "plain", onClick: press, disabled: !may }, text);
    return h(
      "div",
      { class: "bar", role: "toolbar", "aria-label": "Of the selected job", id: "job-actions", tabIndex: -1 },
      hasPlaces && [
        button("Move up (u)", up, earlier !== null),
        button("Move down (d)", down, later !== null),
        button("Move to the front", () => first && void act({ aheadOf: first }), first !== null),
      ],
      button(hasPlaces ? "Priority… (p)" : "Weight… (p)", change, true),
      isAsking &&
        Dialog({
          title: `${hasPlaces ? "Priority" : "Weight"} of ${"name" in queued.job ? queued.job.name : jobId}`,
          onClose: () => ask(false),
          children: Form({
            verb: "Change",
            fields: [hasPlaces ? priorityField(queued.job.priority) : weightField(queued.job.weight)],
            submit: ({ priority, weight }) =>
              update(jobId, hasPlaces ? { priority: Number(priority) } : { weight: Number(weight) }),
            done: () => {
              ask(false);
              done();
            },
          }),
        }),
    );
  },
);

/** @param {Source} source @param {string} jobId @returns {Queued | null} */
function find(source, jobId) {
  for (let at = 0; at < (source.total ?? 0); at += 1) {
    const row = source.row(at);
    if (row?.job.jobId === jobId) return row;
  }
  return null;
}

/** @param {number | null} value @returns {import("../widgets/form.js").Field} */
function priorityField(value) {
  return {
    name: "priority",
    label: "Priority",
    kind: "number",
    min: 1,
    max: 99,
    value: String(value ?? ""),
    required: true,
    hint: "1 is served first, 99 last. Work that runs may be preempted for it where the pool preempts.",
  };
}

/** @param {number | null} value @returns {import("../widgets/form.js").Field} */
function weightField(value) {
  return {
    name: "weight",
    label: "Weight",
    kind: "number",
    min: 0,
    step: "any",
    value: String(value ?? ""),
    required: true,
    hint: "Its share of the pool against those of the others: twice the weight, twice the slots.",
  };
}
