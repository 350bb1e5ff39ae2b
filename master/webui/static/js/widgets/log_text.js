// The text of a log line as pieces to show: colours of terminals as classes, and no character that hides or moves
// others. Pure.

/** @typedef {{ text: string, style: string }} Piece `style`: classes */

/** Of one line, drawn; the rest is there to copy and to download. */
export const MOST_CHARACTERS = 5_000;
const HUES = ["black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"];
const SELECT_COLOUR = /\x1b\[([\d;:]*)m/y;
// What else terminals obey: moves of the cursor, titles, links.
const ORDER = /\x1b(?:\[[0-9;?<=>]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[PX^_][^\x1b]*(?:\x1b\\)?|[ -/]*[0-~])/y;
const ODD = /[\x00-\x08\x0a-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/;

/** @typedef {{ hue: string, isBold: boolean, isDim: boolean, isItalic: boolean, isUnderlined: boolean }} Look */
/** @type {Look} */
const USUAL = { hue: "", isBold: false, isDim: false, isItalic: false, isUnderlined: false };

/** @param {string} line @returns {Piece[]} */
export function pieces(line) {
  /** @type {Piece[]} */
  const found = [];
  const end = Math.min(line.length, MOST_CHARACTERS);
  let [look, from, at] = [USUAL, 0, 0];
  const add = (/** @type {number} */ until) => {
    if (until > from) found.push({ text: line.slice(from, until), style: classesOf(look) });
  };
  while (at < end) {
    if (!ODD.test(line.charAt(at))) {
      at += 1;
      continue;
    }
    add(at);
    const colours = matchAt(SELECT_COLOUR, line, at);
    const order = colours ?? matchAt(ORDER, line, at);
    if (colours) look = changed(look, colours[1] ?? "");
    else if (!order) found.push({ text: nameOf(line.charCodeAt(at)), style: "odd" });
    at += order ? order[0].length : 1;
    from = at;
  }
  add(Math.max(from, end));
  return found;
}

/** What is copied: the text that is shown, without colours. @param {string} line */
export function withoutOrders(line) {
  let text = "";
  for (let at = 0; at < line.length;) {
    const order = line.charAt(at) === "\x1b" ? matchAt(ORDER, line, at) : null;
    if (!order) text += line.charAt(at);
    at += order ? order[0].length : 1;
  }
  return text;
}

/** @param {RegExp} sticky @param {string} line @param {number} at */
function matchAt(sticky, line, at) {
  sticky.lastIndex = at;
  return sticky.exec(line);
}

/** @param {number} code */
function nameOf(code) {
  if (code < 0x20) return String.fromCharCode(0x2400 + code);
  return code === 0x7f ? "\u2421" : `U+${code.toString(16).toUpperCase().padStart(4, "0")}`;
}

/** @param {Look} look @param {string} numbers `1;31` @returns {Look} */
function changed(look, numbers) {
  const codes = numbers.split(/[;:]/).map(Number);
  for (let at = 0; at < codes.length; at += 1) {
    const code = codes[at] ?? 0;
    if (code === 0) look = USUAL;
    else if (code === 1) look = { ...look, isBold: true };
    else if (code === 2) look = { ...look, isDim: true };
    else if (code === 3) look = { ...look, isItalic: true };
    else if (code === 4) look = { ...look, isUnderlined: true };
    else if (code === 22) look = { ...look, isBold: false, isDim: false };
    else if (code === 23) look = { ...look, isItalic: false };
    else if (code === 24) look = { ...look, isUnderlined: false };
    else if (code === 39) look = { ...look, hue: "" };
    else if (code >= 30 && code <= 37) look = { ...look, hue: HUES[code - 30] ?? "" };
    else if (code >= 90 && code <= 97) look = { ...look, hue: HUES[code - 90] ?? "" };
    else if (code === 38 || code === 48) {
      const isIndexed = codes[at + 1] === 5;
      const index = codes[at + 2] ?? 0;
      // Colours beyond the sixteen with names have no contrast that we could promise.
      if (code === 38 && isIndexed && index < 16) look = { ...look, hue: HUES[index % 8] ?? "" };
      at += isIndexed ? 2 : 4;
    }
  }
  return look;
}

/** @param {Look} look */
function classesOf({ hue, isBold, isDim, isItalic, isUnderlined }) {
  const words = [isBold && "bold", isDim && "dim", isItalic && "italic", isUnderlined && "underlined"];
  return [hue && `hue-${hue}`, ...words].filter(Boolean).join(" ");
}
