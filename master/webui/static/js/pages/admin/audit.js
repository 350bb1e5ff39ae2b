// The audit log: acts of administration and refusals, by user and time, from the newest entries of the master's log.

import { api, lines, ok } from "../../api.js";
import { component, h } from "../../html.js";
import { useLive } from "../../live.js";
import { address, choose } from "../../router.js";
import { Command } from "../../widgets/command.js";
import { moment } from "../../widgets/moment.js";
import { Heading, Search } from "../../widgets/page.js";
import { Table } from "../../widgets/table.js";
import { Typed } from "../../widgets/typed.js";
import { listed } from "../../widgets/windows.js";
import { auditLine } from "./audit_lines.js";
import { AdminNav } from "./nav.js";

/** @typedef {import("./audit_lines.js").AuditLine} AuditLine */
/** @typedef {import("../../store.js").Schemas} Schemas */

/** @param {Map<number, string>} users @returns {import("../../widgets/table.js").Column<AuditLine>[]} */
function columns(users) {
  return [
    {
      id: "time",
      title: "Time",
      width: "160px",
      cell: (one) => moment(one.time),
    },
    {
      id: "verdict",
      title: "Verdict",
      width: "80px",
      cell: (one) => h("span", { class: one.allowed ? "" : "problem" }, one.allowed ? "allowed" : "denied"),
    },
    {
      id: "user",
      title: "User",
      width: "120px",
      hint: "Whose login it was",
      cell: ({ facts }) => users.get(Number(facts.user)) ?? facts.by,
    },
    { id: "action", title: "Action", width: "180px", cell: ({ facts }) => facts.action },
    { id: "target", title: "Target", width: "minmax(100px, 1fr)", cell: ({ facts }) => facts.target },
    { id: "request", title: "Request", width: "minmax(160px, 2fr)", isMinor: true, cell: ({ facts }) => facts.request },
    { id: "login", title: "Login", width: "110px", isMinor: true, cell: ({ facts }) => facts.login },
    { id: "address", title: "From", width: "110px", isMinor: true, cell: ({ facts }) => facts.address },
  ];
}

export default component(() => {
  const { query } = address.value;
  const [user, since, denied] = [query.get("user") ?? "", query.get("since") ?? "", query.get("denied") === "1"];
  const live = useLive(
    "master: audit log",
    async (signal) => {
      const [entries, { users }] = await Promise.all([
        lines(api.GET("/api/v1/master/logs", { parseAs: "text", signal })),
        ok(api.GET("/api/v1/users", { signal })),
      ]);
      const found = entries.map((one) => auditLine(/** @type {Schemas["MasterLogsReply"]} */ (one).logEntry));
      const kept = found.filter((line) => line !== null).reverse();
      return { kept, users: new Map(users.map((one) => [one.id, one.username])) };
    },
    { everyMs: 60_000 },
  );
  const users = live.data?.users ?? new Map();
  const rows = live.data
    ? live.data.kept.filter(
        ({ allowed, facts, time }) =>
          !(denied && allowed) &&
          (!user || users.get(Number(facts.user)) === user) &&
          (!since || new Date(time) >= new Date(since)),
      )
    : null;
  return h(
    "section",
    { class: "full" },
    AdminNav({ current: "admin/audit" }),
    Heading({
      title: "Audit log",
      children: h(
        "form",
        { class: "bar", onSubmit: (event) => event.preventDefault() },
        Search({ label: "User is", value: user, onChange: (value) => choose({ user: value }) }),
        h(
          "label",
          null,
          "Since ",
          Typed({
            value: since,
            onChange: (moment) => choose({ since: moment }),
            attributes: { type: "datetime-local" },
          }),
        ),
        h(
          "label",
          null,
          h("input", {
            type: "checkbox",
            checked: denied,
            onChange: (event) => choose({ denied: event.currentTarget.checked ? "1" : "" }),
          }),
          " refusals only",
        ),
      ),
    }),
    h(
      "p",
      { class: "note" },
      "Of the newest 10,000 entries since the master began; what came before is in the system's log.",
    ),
    Table({
      label: "Audit log",
      columns: columns(users),
      source: { ...listed(rows, live.error), refresh: live.refresh },
      rowKey: (one) => one.id,
      empty: "Nothing is noted that is like that.",
    }),
    Command({ text: "det master logs" }),
  );
});
