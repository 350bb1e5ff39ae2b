// The audit log's lines, out of the master's log: `denied by='user 2' user=2 request='PUT /…' action=… target='…'`.
// Who wrote a line is told beside its text, so that no other line can pass for one of these.

/**
 * @typedef {object} AuditLine
 * @property {number} id
 * @property {string} time
 * @property {boolean} allowed
 * @property {Record<string, string>} facts
 */

const LOGGER = "audit";
const FACT = /(?<=\s)(\w+)=('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|\S*)/g;

/**
 * Null for a line of something else.
 *
 * @param {import("../../store.js").Schemas["OwnLogEntry"]} entry
 * @returns {AuditLine | null}
 */
export function auditLine({ id, message, timestamp, logger }) {
  const verdict = /^(allowed|denied) /.exec(message)?.[1];
  if (!verdict || logger !== LOGGER) return null;
  const facts = Object.fromEntries([...message.matchAll(FACT)].map(([, name, value = ""]) => [name, unquoted(value)]));
  if (!facts.action || !facts.by) return null;
  return { id, time: timestamp, allowed: verdict === "allowed", facts };
}

/** Control characters stay as they are written: `\n`. @param {string} value */
function unquoted(value) {
  return /^['"]/.test(value) ? value.slice(1, -1).replace(/\\(['"\\])/g, "$1") : value;
}
