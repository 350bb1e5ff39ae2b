// The log of a task, with all that finds one's way in it; for the pages of tasks, trials and experiments.

import { useEffect } from "../../vendor/hooks.js";
import { api, ok, results } from "../api.js";
import { shell } from "../format.js";
import { component, group, h } from "../html.js";
import { useLive } from "../live.js";
import { address, choose, go, href, ROOT } from "../router.js";
import { Command } from "../widgets/command.js";
import { LogHistogram } from "../widgets/log_histogram.js";
import { Hits, SearchForm, useLogSearch } from "../widgets/log_search.js";
import { LogView } from "../widgets/log_view.js";
import { pending } from "../widgets/page.js";
import { Typed } from "../widgets/typed.js";

/** @typedef {import("../store.js").Schemas} Schemas */
/** @typedef {import("../widgets/log_view.js").Filter} Filter */
/** @typedef {NonNullable<import("../openapi.js").operations["windlass_log_window"]["parameters"]["query"]>} Query */

const BUCKETS = 100;
const COUNTS_EVERY_MS = 10_000;

/** What is asked of a log. @param {Filter} filter @returns {Pick<Query, "levels" | "rankIds">} */
function lineFilters({ level, ranks = "" }) {
  const wanted = ranks.match(/\d{1,9}/g)?.map(Number);
  return {
    ...(level ? { levels: /** @type {NonNullable<Query["levels"]>} */ ([`LOG_LEVEL_${level}`]) } : {}),
    ...(wanted ? { rankIds: wanted } : {}),
  };
}

/** Of this page, at a line. @param {number} line */
function lineHref(line) {
  const { path, query } = address.value;
  return href(path, { ...Object.fromEntries(query), line, time: "" });
}

export const TaskLog = component(
  /** @param {{ task: string, isOver: boolean }} props */
  ({ task, isOver }) => {
    const { query } = address.value;
    const filter = { level: query.get("level") ?? "", ranks: query.get("ranks") ?? "" };
    const wanted = { text: query.get("search") ?? "", isRegex: query.get("regex") === "true" };
    const line = Number(query.get("line") ?? 0);
    const moment = query.get("time");
    const place = line > 0 ? { line } : moment ? { time: moment } : null;
    const path = { task_id: task };
    const topic = `log of task ${task} ${filter.level} ${filter.ranks}`;
    const counts = useLive(
      `task ${task}: counts of lines`,
      (signal) =>
        ok(
          api.GET("/api/v1/windlass/tasks/{task_id}/logs/counts", {
            params: { path, query: { buckets: BUCKETS } },
            signal,
          }),
        ),
      { everyMs: COUNTS_EVERY_MS, isOver: () => isOver },
    );
    const { found, stop } = useLogSearch(topic, wanted, (what, signal) => {
      const text = what.isRegex ? { regex: what.text } : { text: what.text };
      const call = api.GET("/api/v1/windlass/tasks/{task_id}/logs/search", {
        params: { path, query: { ...lineFilters(filter), ...text, buckets: BUCKETS } },
        parseAs: "stream",
        signal,
      });
      return /** @type {AsyncGenerator<Schemas["LogSearchStep"]>} */ (results(call));
    });
    const firstHit = found.hits[0]?.number;
    useEffect(() => {
      if (firstHit !== undefined && !line) go(lineHref(firstHit), { replace: true });
    }, [firstHit]);
    return group(
      SearchForm({
        wanted,
        onWanted: ({ text, isRegex }) =>
          choose({ search: text, regex: isRegex && text ? "true" : "", line: "", time: "" }),
      }),
      wanted.text && Hits({ found, stop, line, link: (hit) => lineHref(hit.number) }),
      counts.data &&
        LogHistogram({
          counts: counts.data,
          hits: found.counts,
          onTime: (time) => choose({ time, line: "" }),
        }),
      LogView({
        topic,
        label: `Log of task ${task}`,
        filter,
        onLevel: (level) => choose({ level }),
        isOver,
        place,
        onFollow: () => choose({ line: "", time: "" }),
        link: ({ number = 0 }) => lineHref(number),
        read: ({ signal, ...part }) =>
          ok(
            api.GET("/api/v1/windlass/tasks/{task_id}/logs/window", {
              params: {
                path,
                query: { ...lineFilters(filter), .../** @type {Query} */ (/** @type {unknown} */ (part)) },
              },
              signal,
            }),
          ),
        tools: group(
          Typed({
            value: line ? String(line) : "",
            onChange: (text) => choose({ line: /^[1-9]\d{0,8}$/.test(text) ? text : "", time: "" }),
            attributes: {
              type: "search",
              inputMode: "numeric",
              size: 8,
              placeholder: "Line",
              "aria-label": "Go to line",
            },
          }),
          Typed({
            value: filter.ranks,
            onChange: (ranks) => choose({ ranks }),
            attributes: { type: "search", size: 8, placeholder: "Ranks: 0,3", "aria-label": "Ranks" },
          }),
        ),
      }),
      h(
        "p",
        { class: "command" },
        h(
          "a",
          { href: `${ROOT}api/v1/tasks/${encodeURIComponent(task)}/logs`, download: `${task}.jsonl` },
          "Download the whole log",
        ),
        " (a JSON document per line)",
      ),
      Command({ text: commandOf(task, wanted, line) }),
    );
  },
);

/** @param {string} task @param {import("../widgets/log_search.js").Wanted} wanted @param {number} line */
function commandOf(task, { text, isRegex }, line) {
  if (text)
    return isRegex ? shell`det task logs ${task} --regex ${text}` : shell`det task logs ${task} --search ${text}`;
  return line ? shell`det task logs ${task} --line ${line} -C 20` : shell`det task logs ${task}`;
}

export const TrialLogs = component(
  /** @param {{ trial: number, isOver: boolean }} props */
  ({ trial, isOver }) => {
    const { data, error, refresh } = useLive(
      `trial ${trial}: its tasks`,
      async (signal) =>
        (await ok(api.GET("/api/v1/trials/{trial_id}", { params: { path: { trial_id: trial } }, signal }))).trial
          .taskIds,
      { isOver: () => isOver },
    );
    if (!data) return pending({ error, refresh });
    const named = address.value.query.get("task");
    const task = data.find((one) => one === named) ?? data.at(-1);
    if (task === undefined) return h("p", { class: "empty" }, "The trial has not been started, so it has no log.");
    return group(
      data.length > 1 &&
        h(
          "label",
          null,
          "Part ",
          h(
            "select",
            { value: task, onChange: (event) => choose({ task: event.currentTarget.value, line: "", time: "" }) },
            data.map((one, at) => h("option", { key: one, value: one }, at ? `continued, ${at}` : "first")),
          ),
        ),
      TaskLog({ key: task, task, isOver }),
    );
  },
);
