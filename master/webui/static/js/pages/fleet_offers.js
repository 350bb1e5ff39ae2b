// What elastic pools may buy, at what price, and what was refused until when: `fleet/offers`.

import { api, ok } from "../api.js";
import { duration } from "../format.js";
import { component, group, h } from "../html.js";
import { useLive } from "../live.js";
import { usd } from "../money.js";
import { useRights } from "../rights.js";
import { address, choose } from "../router.js";
import { Act } from "../widgets/act.js";
import { Command } from "../widgets/command.js";
import { moment } from "../widgets/moment.js";
import { State } from "../widgets/state.js";
import { Table } from "../widgets/table.js";
import { listed } from "../widgets/windows.js";
import { FleetPage } from "./fleet_tabs.js";

/** @typedef {import("../store.js").Schemas["FleetOffer"]} FleetOffer */

const EVERY_MS = 5_000;

/** @param {FleetOffer} offer */
function covers(offer) {
  return Object.values(offer.scope ?? {})
    .filter(Boolean)
    .join("/");
}

/**
 * @param {boolean} may try one again
 * @param {() => void} done
 * @returns {import("../widgets/table.js").Column<FleetOffer>[]}
 */
function columnsOf(may, done) {
  return [
    { id: "name", title: "Offer", width: "minmax(200px, 2fr)", cell: (one) => one.name },
    { id: "state", title: "State", width: "100px", cell: (one) => State({ state: one.state, reason: one.reason }) },
    {
      id: "price",
      title: "USD/h",
      width: "100px",
      isNumber: true,
      hint: "Of one machine; unknown: neither the vendor nor the price book tells",
      cell: (one) => h("span", { title: one.priceOrigin || "as configured" }, usd(one.usdPerHour, 2)),
    },
    {
      id: "origin",
      title: "Price from",
      width: "minmax(100px, 1fr)",
      isMinor: true,
      hint: "Where the price is from, and of when; where none is known, what it is counted as",
      cell: (one) => h("span", { title: one.priceOrigin }, one.priceOrigin || "configuration"),
    },
    {
      id: "reason",
      title: "Last error",
      width: "minmax(160px, 2fr)",
      hint: "What the provider said when it refused, verbatim",
      cell: (one) => one.reason && h("span", { title: `${one.reason} (applies to ${covers(one)})` }, one.reason),
    },
    {
      id: "until",
      title: "Blocked until",
      width: "150px",
      hint: "It is tried again then, if something needs it",
      cell: (one) => one.scope && (one.nextTryAt ? moment(one.nextTryAt) : "somebody tries it"),
    },
    ...(may
      ? [
          {
            id: "retry",
            title: "Try again",
            width: "90px",
            cell: (/** @type {FleetOffer} */ one) =>
              one.scope &&
              Act({
                verb: "Try again",
                of: one.name,
                hint: "Forget why it was refused",
                act: () => ok(api.POST("/api/v1/windlass/fleet/offers/retry", { body: { offer: one.name } })),
                said: `Offer ${one.name} may be bought again.`,
                done,
              }),
          },
        ]
      : []),
    { id: "pool", title: "Pool", width: "100px", isMinor: true, cell: (one) => one.pool },
    { id: "slots", title: "Slots", width: "60px", isNumber: true, isMinor: true, cell: (one) => one.slots },
    { id: "gpu", title: "GPU", width: "110px", isMinor: true, cell: (one) => one.gpuModel || "unknown" },
    {
      id: "boot",
      title: "Boot",
      width: "110px",
      isNumber: true,
      isMinor: true,
      hint: "From the launch to an agent that takes work",
      cell: (one) =>
        h("span", { title: one.bootIsLearned ? "Measured" : "As the offer says; not measured" }, duration(one.bootS)),
    },
  ];
}

export default component(
  /** @param {import("../routes.js").PageProps} _props */
  (_props) => {
    const may = useRights()("UPDATE_AGENTS");
    const pool = address.value.query.get("pool") ?? "";
    const { data, error, refresh } = useLive(
      "fleet: offers",
      (signal) => ok(api.GET("/api/v1/windlass/fleet/offers", { signal })),
      { everyMs: EVERY_MS },
    );
    const pools = [...new Set(data?.offers.map((one) => one.pool))].sort();
    const rows = data ? data.offers.filter((one) => !pool || one.pool === pool) : null;
    return FleetPage({
      current: "fleet/offers",
      title: "Offers",
      controls: h(
        "form",
        { class: "bar", onSubmit: (event) => event.preventDefault() },
        h(
          "select",
          { "aria-label": "Pool", value: pool, onChange: (event) => choose({ pool: event.currentTarget.value }) },
          h("option", { value: "" }, "all pools"),
          pools.map((one) => h("option", { key: one, value: one }, one)),
        ),
      ),
      children: group(
        data?.warnings.map((warning) => h("p", { key: warning, class: "problem" }, warning)),
        Table({
          label: "Offers",
          columns: columnsOf(may, refresh),
          source: { ...listed(rows, error), refresh },
          rowKey: (one) => `${one.pool} ${one.name}`,
          empty: h(
            "p",
            null,
            pool ? "This pool has no offers. " : "No elastic pool has offers. An administrator adds a pool: ",
            !pool && h("code", null, "det deploy"),
          ),
        }),
        Command({ text: "det fleet offers" }),
      ),
    });
  },
);
