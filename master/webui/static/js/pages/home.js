// Home: what is mine, why it waits, what failed, and how full the pools are.

import { useEffect } from "../../vendor/hooks.js";
import { api, number, ok } from "../api.js";
import { count, duration, percent, time } from "../format.js";
import { component, h } from "../html.js";
import { useLive } from "../live.js";
import { ROOT, href } from "../router.js";
import { me } from "../store.js";
import { Command } from "../widgets/command.js";
import { pending } from "../widgets/page.js";
import { ShortTable } from "../widgets/short_table.js";
import { State } from "../widgets/state.js";

/** @typedef {import("../store.js").Schemas["Experiment"]} Experiment */

const MOST = 20;

export default component(
  /** @param {import("../routes.js").PageProps} _props */
  (_props) => {
    useEffect(() => void (document.title = "Home · Windlass"), []);
    const user = me.value;
    return h(
      "section",
      null,
      h("h1", null, user ? `Home of ${user.displayName || user.username}` : "Home"),
      user && Mine({ userId: user.id }),
      Pools({}),
      h(
        "p",
        { class: "note" },
        `Windlass ${document.documentElement.dataset.version}. `,
        h("a", { href: `${ROOT}docs/` }, "Documentation"),
        " · ",
        h("a", { href: `${ROOT}docs/rest-api` }, "REST API"),
      ),
    );
  },
);

const Mine = component(
  /** @param {{ userId: number }} props */
  ({ userId }) => {
    const { data, error, refresh } = useLive(`experiments + queue: of user ${userId}`, async (signal) => {
      const query = /** @type {const} */ ({
        userIds: [userId],
        limit: MOST,
        sortBy: "SORT_BY_START_TIME",
        orderBy: "ORDER_BY_DESC",
        omitConfig: true,
      });
      return ok(api.GET("/api/v1/experiments", { params: { query: { ...query, userIds: [userId] } }, signal }));
    });
    if (!data) return pending({ error, refresh });
    if (!data.experiments.length) {
      return h(
        "div",
        { class: "empty" },
        h("p", null, "You have no experiments yet. Submit one:"),
        Command({ text: "det experiment create config.yaml ." }),
      );
    }
    return h(
      "div",
      null,
      h("h2", null, "My experiments"),
      h(
        "ul",
        { class: "items" },
        data.experiments.map((one) => Item({ key: one.id, one })),
      ),
      h(
        "p",
        { class: "note" },
        `The newest ${data.experiments.length} of ${count(data.pagination.total, "experiment")}. `,
        h("a", { href: href("experiments") }, "All experiments"),
      ),
    );
  },
);

const Item = component(
  /** @param {{ one: Experiment }} props */
  ({ one }) =>
    h(
      "li",
      null,
      h("a", { href: href(`experiments/${one.id}`) }, `${one.id} ${one.name}`),
      " ",
      State({ state: one.state }),
      " ",
      h(
        "span",
        { class: "note" },
        percent(number(one.progress)),
        " · ",
        time(one.startTime),
        " · ",
        duration(one.duration),
      ),
      (one.waitingReason || one.error) &&
        h("p", { class: one.error ? "problem" : "note" }, one.error || one.waitingReason),
    ),
);

const Pools = component(() => {
  const { data, error, refresh } = useLive("cluster: pools", (signal) =>
    ok(api.GET("/api/v1/resource-pools", { signal })),
  );
  if (!data) return pending({ error, refresh });
  return h(
    "div",
    null,
    h("h2", null, "Resource pools"),
    ShortTable({
      label: "Resource pools",
      rows: data.resourcePools,
      rowKey: (pool) => pool.name,
      columns: [
        { title: "Pool", cell: ({ name }) => h("a", { href: href(`queue/${encodeURIComponent(name)}`) }, name) },
        { title: "Agents", isNumber: true, cell: (pool) => pool.numAgents },
        { title: "Slots used", isNumber: true, cell: (pool) => pool.slotsUsed },
        {
          title: "Slots",
          isNumber: true,
          hint: "Of agents that are connected and enabled",
          cell: (pool) => pool.slotsAvailable,
        },
      ],
      empty: "No pools yet: resource_pools of master.yaml names them.",
    }),
    Command({ text: "det resource-pool list" }),
  );
});
