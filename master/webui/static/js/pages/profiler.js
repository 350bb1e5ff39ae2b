// How busy the machines of a trial were: what the profilers of the harness and of `windlass.core` measured.

import { api, ok } from "../api.js";
import { count, shell } from "../format.js";
import { component, group, h } from "../html.js";
import { useLive } from "../live.js";
import { LineChart } from "../widgets/chart.js";
import { Command } from "../widgets/command.js";
import { pending } from "../widgets/page.js";

/** @typedef {import("../store.js").Schemas["ProfileReply"]} Profile */
/** @typedef {import("../store.js").Schemas["ProfileSeries"]} Series */

const EVERY_MS = 15_000;
const POINTS = 300;
const GIB = 2 ** 30;
const MIB = 2 ** 20;
/** @type {Record<string, { title: string, unit?: number }>} */
const TITLES = {
  gpu_util: { title: "GPU use, %" },
  gpu_free_memory: { title: "Free GPU memory, GiB", unit: GIB },
  cpu_util_simple: { title: "CPU use, %" },
  memory_free: { title: "Free memory, GiB", unit: GIB },
  disk_iops: { title: "Disk operations a second" },
  disk_throughput_read: { title: "Read from disk, MiB/s", unit: MIB },
  disk_throughput_write: { title: "Written to disk, MiB/s", unit: MIB },
  net_throughput_sent: { title: "Sent over the network, MiB/s", unit: MIB },
  net_throughput_recv: { title: "Received over the network, MiB/s", unit: MIB },
};
const FIRST = Object.keys(TITLES);

export const Profiler = component(
  /** @param {{ trial: number, isOver: boolean }} props */
  ({ trial, isOver }) => {
    const live = useLive(
      `trial ${trial}: profile`,
      (signal) =>
        ok(
          api.GET("/api/v1/windlass/trials/{trial_id}/profile", {
            params: { path: { trial_id: trial }, query: { points: POINTS } },
            signal,
          }),
        ),
      { everyMs: EVERY_MS, isOver: () => isOver },
    );
    if (!live.data) return pending(live);
    return group(
      live.data.since ? Charts({ profile: live.data }) : off(),
      Command({ text: shell`det trial profile ${trial}` }),
    );
  },
);

function off() {
  return h(
    "p",
    { class: "empty" },
    "Nothing was measured. To measure, submit with ",
    h("code", null, "profiling: {enabled: true}"),
    ", or call ",
    h("code", null, "core_context.profiler.on()"),
    ".",
  );
}

const Charts = component(
  /** @param {{ profile: Profile }} props */
  ({ profile: { since, series, idleGpus, reports, everyNth } }) => {
    const start = Date.parse(since ?? "");
    const names = [...new Set(series.map((one) => one.name))].sort((a, b) => place(a) - place(b) || a.localeCompare(b));
    return group(
      idleGpus.length > 0 &&
        h(
          "div",
          { class: "problem-box", role: "status" },
          h("strong", null, `${count(idleGpus.length, "GPU")} did nothing in the last ten minutes measured:`),
          h(
            "ul",
            null,
            idleGpus.map((one) =>
              h("li", { key: one.gpuUuid }, `${one.gpuUuid} of ${one.agentId}: ${one.percent.toFixed(1)} % used`),
            ),
          ),
        ),
      everyNth > 1 && h("p", { class: "note" }, `Of ${reports.toLocaleString()} reports, one in ${everyNth} is shown.`),
      h(
        "div",
        { class: "charts" },
        names.map((name) =>
          LineChart({
            key: name,
            title: TITLES[name]?.title ?? name,
            hint: `A line for each machine, or GPU: means of ${POINTS} parts of the time, since the first measurement`,
            xLabel: "minutes",
            series: series.filter((one) => one.name === name).map((one) => drawn(one, start)),
          }),
        ),
      ),
    );
  },
);

/** @param {string} name */
function place(name) {
  const at = FIRST.indexOf(name);
  return at < 0 ? FIRST.length : at;
}

/** @param {Series} series @param {number} start */
function drawn({ name, agentId, gpuUuid, points }, start) {
  const unit = TITLES[name]?.unit ?? 1;
  return {
    label: [agentId, gpuUuid].filter(Boolean).join(" ") || name,
    x: points.map((one) => Math.round((Date.parse(one.at) - start) / 600) / 100),
    y: points.map((one) => one.mean / unit),
  };
}
