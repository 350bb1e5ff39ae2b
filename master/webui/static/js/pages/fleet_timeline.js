// What each machine did when, and what it cost: `fleet/timeline`.

import { api, ok } from "../api.js";
import { count, duration } from "../format.js";
import { component, group, h } from "../html.js";
import { useLive } from "../live.js";
import { usd } from "../money.js";
import { address, choose, go, href } from "../router.js";
import { Command } from "../widgets/command.js";
import { Facts } from "../widgets/facts.js";
import { Table } from "../widgets/table.js";
import { Timeline, colourName } from "../widgets/timeline.js";
import { listed } from "../widgets/windows.js";
import { FleetPage } from "./fleet_tabs.js";

/** @typedef {import("../store.js").Schemas["MachineLife"]} Life */
/** @typedef {import("../store.js").Schemas["TimeSpan"]} TimeSpan */
/** @typedef {TimeSpan["kind"]} Kind */

/** @type {Record<Kind, { look: import("../widgets/timeline.js").Look, title: string, hint: string }>} */
const KINDS = {
  queued: { look: "outline", title: "Queued", hint: "asked for, costs nothing yet" },
  boot: { look: "low", title: "Boot", hint: "from its launch until its agent had connected" },
  busy: { look: "full", title: "Busy", hint: "something ran there" },
  idle: { look: "pale", title: "Idle", hint: "in service without work" },
  ending: { look: "hatched", title: "Ending", hint: "from the decision to end it until it was gone" },
  lost: { look: "hatched", title: "Lost", hint: "its agent never connected, or was silent until its end" },
  stopped: { look: "outline", title: "Stopped", hint: "only its disk is paid for" },
};
const LOOKS = { outline: "dashed", low: "half height", full: "full", pale: "pale", hatched: "hatched" };
const HOURS = [1, 6, 24, 72, 168, 720];
const EVERY_MS = 5_000;

/** @param {TimeSpan} span */
function seconds(span) {
  return (Date.parse(span.end) - Date.parse(span.start)) / 1000;
}

/** @param {Life} life @param {Kind} kind */
function spent(life, kind) {
  const sum = life.spans.filter((span) => span.kind === kind).reduce((all, span) => all + seconds(span), 0);
  return sum ? duration(sum) : "";
}

/** @param {Life} life */
function offer({ offer: { provider, region, zone, instanceType, market } }) {
  return [provider, region, zone, instanceType, market].filter(Boolean).join("/");
}

/** @type {import("../widgets/table.js").Column<Life>[]} */
const COLUMNS = [
  {
    id: "id",
    title: "Machine",
    width: "minmax(110px, 1fr)",
    cell: (one) => h("span", { title: one.reason || undefined }, one.id),
  },
  {
    id: "now",
    title: "Now",
    width: "90px",
    cell: (one) => (one.exists ? KINDS[one.spans.at(-1)?.kind ?? "idle"].title.toLowerCase() : "gone"),
  },
  { id: "market", title: "Market", width: "100px", cell: (one) => one.offer.market.replaceAll("_", "-") },
  {
    id: "usd",
    title: "USD",
    width: "100px",
    isNumber: true,
    hint: "Of its whole life so far, as the ledger has it",
    cell: (one) => usd(one.usd),
  },
  .../** @type {const} */ (["queued", "boot", "busy", "idle", "ending", "lost"]).map((kind) => ({
    id: kind,
    title: KINDS[kind].title,
    hint: `Within the time shown: ${KINDS[kind].hint}`,
    width: "72px",
    isNumber: true,
    isMinor: kind !== "busy",
    cell: (/** @type {Life} */ one) => spent(one, kind),
  })),
  {
    id: "price",
    title: "USD/h",
    width: "90px",
    isNumber: true,
    isMinor: true,
    cell: (one) => usd(one.usdPerHour, 2),
  },
  { id: "pool", title: "Pool", width: "80px", isMinor: true, cell: (one) => one.pool },
  { id: "offer", title: "Offer", width: "minmax(110px, 1fr)", isMinor: true, cell: offer },
];

/** What was decided about it. @param {string} machine */
function decisionsOf(machine) {
  return href("fleet/decisions", { machine });
}

/** @param {Life} life @returns {import("../widgets/timeline.js").Bar} */
function barOf(life) {
  return {
    id: life.id,
    title: life.id,
    group: life.offer.market,
    hint: `${life.id}: ${offer(life)}, ${usd(life.usd)}`,
    spans: life.spans.map((span) => ({
      start: Date.parse(span.start),
      end: Date.parse(span.end),
      look: KINDS[span.kind].look,
      hint: `${KINDS[span.kind].title.toLowerCase()} for ${duration(seconds(span))}, ${offer(life)}, ${usd(life.usd)}`,
    })),
  };
}

export default component(
  /** @param {import("../routes.js").PageProps} _props */
  (_props) => {
    const asked = Number(address.value.query.get("hours"));
    const hours = HOURS.includes(asked) ? asked : 24;
    const { data, error, refresh } = useLive(
      `fleet: timeline of ${hours} hours`,
      (signal) => ok(api.GET("/api/v1/windlass/fleet/timeline", { params: { query: { hours } }, signal })),
      { everyMs: EVERY_MS },
    );
    return FleetPage({
      current: "fleet/timeline",
      title: "Machines",
      controls: h(
        "form",
        { class: "bar", onSubmit: (event) => event.preventDefault() },
        h(
          "select",
          { "aria-label": "Time", value: hours, onChange: (event) => choose({ hours: event.currentTarget.value }) },
          HOURS.map((one) => h("option", { key: one, value: one }, `the last ${duration(one * 3600)}`)),
        ),
      ),
      children: group(
        data && data.total > 0 && Drawn({ data }),
        Table({
          label: "Machines",
          columns: COLUMNS,
          source: { ...listed(data?.machines ?? null, error), refresh },
          rowKey: (one) => one.id,
          link: (one) => decisionsOf(one.id),
          empty: h(
            "p",
            null,
            "No machine of an elastic pool existed in this time. One is launched when work waits for it: ",
            h("code", null, "det fleet plan"),
            " says what would be.",
          ),
        }),
        Command({ text: "det fleet list" }),
      ),
    });
  },
);

const Drawn = component(
  /** @param {{ data: import("../store.js").Schemas["TimelineReply"] }} props */
  ({ data: { machines, total, since, until } }) => {
    const markets = [...new Set(machines.map((life) => life.offer.market))].sort();
    const known = machines.map((life) => life.usd).filter((one) => one !== null);
    return group(
      Facts({
        facts: [
          ["Machines", `${machines.filter((life) => life.exists).length} now`, "Those asked for included"],
          [
            "Cost so far",
            usd(known.length ? known.reduce((all, one) => all + one, 0) : null) +
              (known.length < machines.length ? `, ${count(machines.length - known.length, "unknown price")}` : ""),
            "Of the machines below, each from its launch on",
          ],
        ],
      }),
      total > machines.length && h("p", { class: "note" }, `The newest ${machines.length} of ${total}.`),
      h(
        "ul",
        { class: "legend", "aria-label": "Legend" },
        Object.entries(KINDS).map(([kind, { title, look, hint }]) =>
          h("li", { key: kind, title: hint }, `${title}: ${LOOKS[look]}`),
        ),
        markets.map((market) =>
          h("li", { key: market }, `${colourName(markets, market)}: ${market.replaceAll("_", "-")}`),
        ),
      ),
      Timeline({
        bars: machines.map(barOf),
        groups: markets,
        from: Date.parse(since),
        to: Date.parse(until),
        open: (machine) => go(decisionsOf(machine)),
      }),
      h(
        "p",
        { class: "note" },
        "Machines that exist, and those that are gone and not wholly booked yet. What others cost: Costs, by instance.",
        " A machine opens what was decided about it.",
      ),
    );
  },
);
