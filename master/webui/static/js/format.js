// Values as people read them. Nothing here touches the page.

const SIZES = ["B", "KiB", "MiB", "GiB", "TiB"];
const CLOCK = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
const ZONED = new Intl.DateTimeFormat(undefined, { dateStyle: "full", timeStyle: "long" });

/** @param {string | null | undefined} moment */
export function time(moment) {
  return moment ? CLOCK.format(new Date(moment)) : "";
}

/** With the zone, for tool tips. @param {string | null | undefined} moment */
export function fullTime(moment) {
  return moment ? ZONED.format(new Date(moment)) : "";
}

/** @param {number | null | undefined} seconds */
export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "";
  const whole = Math.max(0, Math.round(seconds));
  const [days, hours] = [Math.floor(whole / 86400), Math.floor(whole / 3600) % 24];
  const [minutes, rest] = [Math.floor(whole / 60) % 60, whole % 60];
  if (days) return `${days} d ${hours} h`;
  if (hours) return `${hours} h ${minutes} min`;
  return minutes ? `${minutes} min ${rest} s` : `${rest} s`;
}

/** A metric or a setting: six digits, as `det` prints them. @param {unknown} value @returns {string} */
export function value(value) {
  if (value === null || value === undefined) return "";
  if (typeof value === "number") return Number.isFinite(value) ? String(Number(value.toPrecision(6))) : String(value);
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

/** @param {number | null} count */
export function bytes(count) {
  if (count === null) return "";
  let unit = 0;
  for (; count >= 1024 && unit < SIZES.length - 1; unit += 1) count /= 1024;
  return `${Number(count.toPrecision(3))} ${SIZES[unit]}`;
}

/** @param {number | null | undefined} share of one */
export function percent(share) {
  return share === null || share === undefined || Number.isNaN(share) ? "" : `${Math.round(100 * share)}%`;
}

/** `3 trials`, `1 trial`. @param {number} number @param {string} noun */
export function count(number, noun) {
  return `${number.toLocaleString()} ${noun}${number === 1 ? "" : "s"}`;
}

/** `STATE_STOPPING_CANCELED`: stopping canceled. @param {string} state */
export function stateName(state) {
  return state
    .replace(/^[A-Z]*STATE_/, "")
    .toLowerCase()
    .replaceAll("_", " ");
}

/**
 * A line for a shell, in which each value stays one word, whatever is in it: shell`det task logs ${id}`.
 *
 * @param {TemplateStringsArray} texts
 * @param {...(string | number)} values
 */
export function shell(texts, ...values) {
  return texts.reduce((line, text, at) => line + word(values[at - 1] ?? "") + text);
}

/** @param {string | number} value */
function word(value) {
  const text = String(value);
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}

// Colours of terminals, and what moves a cursor or the direction of text.
const ESCAPES = /\x1b\[[0-9;?]*[ -/]*[@-~]|[\x00-\x08\x0b-\x1f\x7f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

/** A log line without what would hide or move parts of it. @param {string} line */
export function plain(line) {
  return line.replace(/\r?\n$/, "").replace(ESCAPES, "");
}

// What moves or hides other characters, or cannot be seen.
const UNSEEN = /[\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\x00-\x08\x0b-\x1f\x7f]/g;

/** A text of others in which such characters stand as their numbers: `⟦U+202E⟧`. @param {string} text */
export function visible(text) {
  const code = (/** @type {string} */ one) => one.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0");
  return text.replace(UNSEEN, (one) => `⟦U+${code(one)}⟧`);
}
