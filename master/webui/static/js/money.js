// US dollars as people read them, and months as the ledger names them.

import { number } from "./api.js";

/**
 * What is not known is "unknown", never 0.
 *
 * @param {unknown} amount
 * @param {number} [digits] four, as `det fleet costs` prints them
 */
export function usd(amount, digits = 4) {
  const known = number(amount);
  return known === null || !Number.isFinite(known) ? "unknown" : `$${known.toFixed(digits)}`;
}

/**
 * The newest first: 2026-11, 2026-10, ... in UTC.
 *
 * @param {number} count
 * @param {Date} [now]
 */
export function months(count, now = new Date()) {
  return Array.from({ length: count }, (_, back) =>
    new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() - back, 1)).toISOString().slice(0, 7),
  );
}
