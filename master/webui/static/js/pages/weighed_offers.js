// The offers that the planner weighs for some work, with what speaks against each.

import { component, h } from "../html.js";
import { usd } from "../money.js";
import { ShortTable } from "../widgets/short_table.js";

/** @typedef {import("../store.js").Schemas["WeighedAlternative"]} Weighed */

export const WeighedOffers = component(
  /** @param {{ offers: Weighed[] }} props */
  ({ offers }) =>
    ShortTable({
      label: "Offers that were weighed",
      rows: offers,
      rowKey: (one) => one.offer,
      columns: [
        { title: "Offer", cell: (one) => (one.launched ? h("strong", null, one.offer) : one.offer) },
        {
          title: "Machines",
          isNumber: true,
          hint: "That the work would take of it",
          cell: (one) => one.machines,
        },
        {
          title: "USD/h",
          isNumber: true,
          hint: "Of these machines, by price alone",
          cell: (one) => (one.machines ? usd(one.usdPerHour, 2) : ""),
        },
        {
          title: "USD per hour of work",
          isNumber: true,
          hint: "Expected, with boot, waiting, interruptions and the network between machines",
          cell: (one) => (one.machines ? usd(one.usdPerWorkHour, 2) : ""),
        },
        { title: "Why not", cell: (one) => (one.launched ? `launched: ${one.launched}` : one.whyNot) },
      ],
      empty: "No offer was weighed.",
    }),
);
