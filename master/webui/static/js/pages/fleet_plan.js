// What would be bought now, and for work that nobody has submitted: `fleet/plan`.

import { ApiError, api, ok } from "../api.js";
import { count } from "../format.js";
import { component, group, h } from "../html.js";
import { useLive } from "../live.js";
import { useRights } from "../rights.js";
import { address, choose } from "../router.js";
import { Command } from "../widgets/command.js";
import { pending } from "../widgets/page.js";
import { Typed } from "../widgets/typed.js";
import { FleetPage } from "./fleet_tabs.js";
import { Launches, fateOf, runsOf } from "./plan_parts.js";
import { WeighedOffers } from "./weighed_offers.js";

/** @typedef {import("../store.js").Schemas} Schemas */
/** @typedef {{ slots: number, runs: number, pool: string, market: string }} Asked */

const EVERY_MS = 10_000;
const MOST_RUNS = 1_000;
const MARKETS = ["spot", "on_demand", "reserved", "capacity_block"];

/** What would be submitted: JSON is YAML. @param {Asked} asked */
function configOf({ slots, runs, pool, market }) {
  return JSON.stringify({
    name: "what if",
    entrypoint: "true",
    searcher: { name: "random", metric: "none", max_trials: runs, max_concurrent_trials: runs },
    resources: {
      slots_per_trial: slots,
      ...(pool ? { resource_pool: pool } : {}),
      ...(market ? { markets: [market] } : {}),
    },
  });
}

/** Why it could not be submitted, if that is so. @param {Asked} asked @param {AbortSignal} signal */
async function whatIf(asked, signal) {
  try {
    return await ok(api.POST("/api/v1/windlass/fleet/plan", { body: { experiment: configOf(asked) }, signal }));
  } catch (error) {
    if (error instanceof ApiError && error.status === 400) return error.message;
    throw error;
  }
}

/** @param {string | null} text @param {number} most */
function whole(text, most) {
  const number = Number(text);
  return Number.isInteger(number) && number > 0 ? Math.min(number, most) : 0;
}

export default component(
  /** @param {import("../routes.js").PageProps} _props */
  (_props) => {
    const { query } = address.value;
    const asked = {
      slots: whole(query.get("slots"), 1_000_000),
      runs: whole(query.get("runs"), MOST_RUNS) || 1,
      pool: query.get("pool") ?? "",
      market: MARKETS.find((one) => one === query.get("market")) ?? "",
    };
    const may = useRights()("CREATE_EXPERIMENT", { anybody: true });
    const isAsked = asked.slots > 0;
    const live = useLive(
      `fleet: plan ${isAsked ? JSON.stringify(asked) : ""}`,
      (signal) => (isAsked ? whatIf(asked, signal) : ok(api.GET("/api/v1/windlass/fleet/plan", { signal }))),
      { everyMs: EVERY_MS, isOver: (found) => typeof found === "string" },
    );
    return FleetPage({
      current: "fleet/plan",
      title: "What if",
      children: group(
        h("p", { class: "note" }, "What would be launched at this moment. Nothing is launched, nothing is submitted."),
        (may || isAsked) && Question({ asked }),
        typeof live.data === "string"
          ? h("p", { class: "problem", role: "alert" }, live.data)
          : live.data
            ? Answer({ plan: live.data, isAsked })
            : pending(live),
        Command({ text: isAsked ? `det fleet plan -f what-if.yaml` : "det fleet plan" }),
        isAsked &&
          h("details", null, h("summary", null, "what-if.yaml"), h("pre", { tabIndex: 0 }, `${configOf(asked)}\n`)),
      ),
    });
  },
);

const Question = component(
  /** @param {{ asked: Asked }} props */
  ({ asked }) => {
    const { data: pools } = useLive("cluster: names of pools", (signal) =>
      ok(api.GET("/api/v1/resource-pools", { signal })),
    );
    const number = (/** @type {string} */ name, /** @type {string} */ value, /** @type {number} */ max) =>
      Typed({ value, onChange: (text) => choose({ [name]: text }), attributes: { type: "number", min: 1, max } });
    return h(
      "form",
      { class: "bar", onSubmit: (event) => event.preventDefault() },
      h("label", null, "What if ", number("runs", String(asked.runs), MOST_RUNS), " runs"),
      h("label", null, "of ", number("slots", asked.slots ? String(asked.slots) : "", 1_000_000), " slots each"),
      h(
        "label",
        null,
        "in pool ",
        h(
          "select",
          { value: asked.pool, onChange: (event) => choose({ pool: event.currentTarget.value }) },
          h("option", { value: "" }, "the default"),
          pools?.resourcePools.map(({ name }) => h("option", { key: name, value: name }, name)),
        ),
      ),
      h(
        "label",
        null,
        "on ",
        h(
          "select",
          { value: asked.market, onChange: (event) => choose({ market: event.currentTarget.value }) },
          h("option", { value: "" }, "any market"),
          MARKETS.map((one) => h("option", { key: one, value: one }, one.replaceAll("_", "-"))),
        ),
      ),
    );
  },
);

const Answer = component(
  /** @param {{ plan: Schemas["PlanReply"], isAsked: boolean }} props */
  ({ plan, isAsked }) =>
    group(
      plan.asked.map((one, at) => h("p", { key: at }, h("strong", null, `${runsOf(one)}: ${fateOf(one)}.`))),
      h("h2", null, "Would be launched"),
      Launches({ plan }),
      plan.waiting.length > 0 &&
        group(
          h("h2", null, "Would wait"),
          h(
            "ul",
            { class: "items" },
            plan.waiting.map((one, at) =>
              h("li", { key: at }, `${count(one.runs, "run")} in pool ${one.pool}: ${one.reason?.text ?? "waits"}`),
            ),
          ),
        ),
      plan.considered.map((one, at) =>
        group(
          h("h2", { key: at }, `Weighed for ${runsOf(one)}${one.asks ? ` that ask for ${one.asks}` : ""}`),
          WeighedOffers({ offers: one.offers }),
        ),
      ),
      isAsked && !plan.considered.length && h("p", { class: "note" }, "No offers were weighed."),
    ),
);
