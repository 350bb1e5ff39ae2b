// What was decided about machines, why, and what was weighed: `fleet/decisions`.

import { useLayoutEffect } from "../../vendor/hooks.js";
import { api, ok } from "../api.js";
import { count, shell } from "../format.js";
import { component, group, h } from "../html.js";
import { bind } from "../keys.js";
import { useLive } from "../live.js";
import { usd } from "../money.js";
import { address, choose, href } from "../router.js";
import { Command } from "../widgets/command.js";
import { Facts } from "../widgets/facts.js";
import { moment } from "../widgets/moment.js";
import { pending } from "../widgets/page.js";
import { Table } from "../widgets/table.js";
import { useWindows } from "../widgets/windows.js";
import { FleetPage } from "./fleet_tabs.js";
import { WeighedOffers } from "./weighed_offers.js";

/** @typedef {import("../store.js").Schemas["FleetDecision"]} Decision */
/** @typedef {Decision["kind"]} Kind */

/** @type {Record<Kind, string>} */
const KINDS = {
  launched: "launched",
  ended: "ended",
  moved: "moved",
  cancelled: "cancelled",
  refused: "not launched",
};

/** @param {string} word @returns {Kind | undefined} */
function kindOf(word) {
  return Object.hasOwn(KINDS, word) ? /** @type {Kind} */ (word) : undefined;
}

/** @param {Decision} one */
function reason(one) {
  return one.said ? `${one.reason}: ${one.said}` : one.reason;
}

/** @type {import("../widgets/table.js").Column<Decision>[]} */
const COLUMNS = [
  {
    id: "last",
    title: "Last",
    width: "160px",
    hint: "When it was last decided",
    cell: (one) => moment(one.lastAt),
  },
  {
    id: "kind",
    title: "Decision",
    width: "140px",
    cell: (one) => `${KINDS[one.kind]}${one.stands ? (one.kind === "launched" ? ", asked" : ", now") : ""}`,
  },
  {
    id: "reason",
    title: "Reason",
    width: "minmax(200px, 4fr)",
    cell: (one) => h("span", { title: reason(one) }, reason(one)),
  },
  {
    id: "offer",
    title: "Offer",
    width: "minmax(120px, 2fr)",
    cell: (one) => h("span", { title: one.offer }, one.offer),
  },
  {
    id: "usd",
    title: "USD/h",
    width: "90px",
    isNumber: true,
    hint: "Of its machines, by price alone",
    cell: (one) => (one.machines ? usd(one.usdPerHour, 2) : ""),
  },
  {
    id: "machines",
    title: "Machines",
    width: "80px",
    isNumber: true,
    isMinor: true,
    hint: "Of this offer",
    cell: (one) => one.machines,
  },
  {
    id: "runs",
    title: "Runs",
    width: "60px",
    isNumber: true,
    isMinor: true,
    hint: "For which it was decided",
    cell: (one) => one.runs,
  },
  {
    id: "times",
    title: "Times",
    width: "60px",
    isNumber: true,
    isMinor: true,
    hint: "By how many passes it was decided",
    cell: (one) => one.times,
  },
  { id: "pool", title: "Pool", width: "90px", isMinor: true, cell: (one) => one.pool },
];

export default component(
  /** @param {import("../routes.js").PageProps} _props */
  (_props) => {
    const { query } = address.value;
    const [pool, machine, job] = [query.get("pool") ?? "", query.get("machine") ?? "", query.get("job") ?? ""];
    const kind = kindOf(query.get("kind") ?? "");
    const chosen = query.get("decision") ?? "";
    const wanted = { pool, machine, job, ...(kind ? { kind } : {}) };
    const source = useWindows(`fleet: decisions ${JSON.stringify(wanted)}`, async (offset, limit, signal) => {
      const params = { query: { ...wanted, offset, limit } };
      const found = await ok(api.GET("/api/v1/windlass/fleet/decisions", { params, signal }));
      return { rows: found.decisions, total: found.pagination.total };
    });
    const { data: pools } = useLive("cluster: names of pools", (signal) =>
      ok(api.GET("/api/v1/resource-pools", { signal })),
    );
    useLayoutEffect(() => bind({ Escape: () => choose({ decision: "" }) }), []);
    return FleetPage({
      current: "fleet/decisions",
      title: "Decisions",
      controls: h(
        "form",
        { class: "bar", onSubmit: (event) => event.preventDefault() },
        h(
          "select",
          { "aria-label": "Pool", value: pool, onChange: (event) => choose({ pool: event.currentTarget.value }) },
          h("option", { value: "" }, "all pools"),
          pools?.resourcePools.map(({ name }) => h("option", { key: name, value: name }, name)),
        ),
        h(
          "select",
          {
            "aria-label": "Decision",
            value: kind ?? "",
            onChange: (event) => choose({ kind: event.currentTarget.value }),
          },
          h("option", { value: "" }, "all decisions"),
          Object.entries(KINDS).map(([word, title]) => h("option", { key: word, value: word }, title)),
        ),
      ),
      children: group(
        machine && Only({ what: `about machine ${machine}`, name: "machine" }),
        job && Only({ what: `for runs of job ${job}`, name: "job" }),
        Table({
          label: "Decisions",
          columns: COLUMNS,
          source,
          rowKey: (one) => one.id,
          selected: new Set(chosen ? [chosen] : []),
          onSelect: (keys) => choose({ decision: [...keys].filter((key) => key !== chosen).map(String)[0] ?? "" }),
          empty: h(
            "p",
            null,
            "Nothing like that was decided in the last 90 days. What would be decided now: ",
            h("code", null, "det fleet plan"),
          ),
        }),
        chosen && One({ key: chosen, id: chosen }),
        Command({ text: command({ pool, kind: kind ?? "", machine, job }) }),
      ),
    });
  },
);

/** @param {Record<string, string>} wanted */
function command(wanted) {
  const options = Object.entries(wanted).filter(([, value]) => value);
  return ["det fleet decisions", ...options.map(([name, value]) => `--${name} ${shell`${value}`}`)].join(" ");
}

const Only = component(
  /** @param {{ what: string, name: string }} props */
  ({ what, name }) =>
    h(
      "p",
      null,
      `Only those ${what}. `,
      h("button", { type: "button", class: "plain", onClick: () => choose({ [name]: "" }) }, "Show all"),
    ),
);

const One = component(
  /** @param {{ id: string }} props */
  ({ id }) => {
    const live = useLive(`fleet: decision ${id}`, (signal) =>
      ok(api.GET("/api/v1/windlass/fleet/decisions", { params: { query: { id } }, signal })),
    );
    if (!live.data) return pending(live);
    const one = live.data.decisions[0];
    if (!one) return h("p", { class: "empty" }, "This decision is not kept any more, or its pool is not yours to see.");
    return Told({ one });
  },
);

const Told = component(
  /** @param {{ one: Decision }} props */
  ({ one }) =>
    h(
      "section",
      { class: "drawer", "aria-label": "The selected decision", tabIndex: 0 },
      h("h2", null, `Pool ${one.pool}: ${KINDS[one.kind]}`),
      h("p", null, one.reason),
      one.said && h("p", { class: "problem" }, `Nothing was made: ${one.said}`),
      Facts({
        facts: [
          ["First", moment(one.firstAt)],
          ["Last", moment(one.lastAt)],
          ["Times", one.times, "By how many passes it was decided from the first time to the last"],
          ["Offer", one.offer && h("a", { href: href("fleet/offers", { pool: one.pool }) }, one.offer)],
          ["Machines", one.machines || null],
          [one.kind === "refused" ? "Slots of each run" : "Slots", one.slots],
          ["USD per hour", one.machines ? usd(one.usdPerHour, 2) : null, "Of all these machines, by price alone"],
          ["For", one.runs ? count(one.runs, "run") : null],
        ],
      }),
      Linked({ title: "Machines", ids: one.instances, link: (machine) => href("fleet/decisions", { machine }) }),
      Linked({ title: "Jobs", ids: one.jobs, link: (job) => href(`jobs/${encodeURIComponent(job)}`) }),
      one.alternatives.length > 0 &&
        group(
          h("h3", null, "Weighed"),
          one.weighed > one.alternatives.length &&
            h("p", { class: "note" }, `The best ${one.alternatives.length} of ${count(one.weighed, "offer")}.`),
          WeighedOffers({ offers: one.alternatives }),
        ),
    ),
);

const MOST_LINKS = 50;

const Linked = component(
  /** @param {{ title: string, ids: string[], link: (id: string) => string }} props */
  ({ title, ids, link }) =>
    ids.length > 0 &&
    group(
      h("h3", null, title),
      h(
        "ul",
        { class: "items" },
        ids.slice(0, MOST_LINKS).map((id) => h("li", { key: id }, h("a", { href: link(id) }, id))),
      ),
      ids.length > MOST_LINKS && h("p", { class: "note" }, `The first ${MOST_LINKS} of ${ids.length}.`),
    ),
);
