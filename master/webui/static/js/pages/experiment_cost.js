// What an experiment cost so far on machines of elastic pools, and what all of it will.

import { api, ok } from "../api.js";
import { useLive } from "../live.js";
import { usd } from "../money.js";

const EVERY_MS = 30_000;

/** For its header; empty if it has cost nothing. @param {number} id @returns {import("../widgets/facts.js").Fact} */
export function useCost(id) {
  const { data } = useLive(
    `costs: of experiment ${id}`,
    (signal) => ok(api.GET("/api/v1/windlass/experiments/{id}/cost", { params: { path: { id } }, signal })),
    { everyMs: EVERY_MS },
  );
  if (!data || (!data.usd && !data.usdPerHour)) return ["Cost", ""];
  const whole = data.forecastUsd === null ? "" : `, ${usd(data.forecastUsd, 2)} in all`;
  const now = data.usdPerHour ? `, ${usd(data.usdPerHour, 2)} per hour now` : "";
  return ["Cost", `${usd(data.usd, 2)}${now}${whole}`, `On machines of elastic pools; ${data.basis}`];
}
