// Changes to the text of a configuration that leave the rest as its user wrote it. It is YAML, or JSON, which is YAML.
// What comes of an unusual text is still text: the master checks it, and its user sees it.

/** @typedef {string | number | boolean} Scalar */
/** @typedef {{ [key: string]: Scalar | Tree }} Tree */

/** With another section, at its end. @param {string} text @param {string} name @param {Tree} section */
export function withSection(text, name, section) {
  const document = json(text);
  if (document) return pretty({ ...document, [name]: section });
  const lines = text.split("\n");
  const [start, end] = blockOf(lines, name);
  lines.splice(start, end - start);
  return `${lines.join("\n").trimEnd()}\n${yaml({ [name]: section }, "")}`;
}

/**
 * With one key of a section set, and others removed from it.
 *
 * @param {string} text
 * @param {string} name of the section
 * @param {string} key
 * @param {Scalar} value
 * @param {string[]} [others]
 */
export function withKey(text, name, key, value, others = []) {
  const gone = [key, ...others];
  const document = json(text);
  if (document) {
    const kept = Object.entries(document[name] ?? {}).filter(([one]) => !gone.includes(one));
    return pretty({ ...document, [name]: { ...Object.fromEntries(kept), [key]: value } });
  }
  const lines = text.split("\n");
  const [start, end] = blockOf(lines, name);
  const added = `${key}: ${scalar(value)}`;
  if (start === end) return `${text.trimEnd()}\n${name}:\n  ${added}\n`;
  const pattern = gone.map(word).join("|");
  const block = lines.slice(start, end).join("\n");
  const opening = /^[^\n:]+:\s*\{\s*/.exec(block)?.[0];
  if (opening) {
    const rest = block.slice(opening.length).replace(new RegExp(`(?:${pattern})\\s*:\\s*[^,}]*,?\\s*`, "g"), "");
    lines.splice(start, end - start, `${opening}${added}${rest.startsWith("}") ? "" : ", "}${rest}`);
  } else {
    const inner = lines.slice(start + 1, end).filter((line) => !new RegExp(`^\\s+(?:${pattern})\\s*:`).test(line));
    const indent = inner.map((line) => /^ +(?=[^\s#])/.exec(line)?.[0]).find(Boolean) ?? "  ";
    lines.splice(start, end - start, lines[start] ?? "", indent + added, ...inner);
  }
  return lines.join("\n");
}

/** As a person reads it: JSON of one line is broken into several. @param {string} text */
export function readable(text) {
  const document = json(text);
  return document && !text.trim().includes("\n") ? pretty(document) : text;
}

/** @param {string} text @returns {Record<string, any> | null} null: it is YAML */
function json(text) {
  if (!text.trimStart().startsWith("{")) return null;
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

/** @param {unknown} document */
function pretty(document) {
  return `${JSON.stringify(document, null, 2)}\n`;
}

/**
 * Where a key of the first level and what is below it begins and ends.
 *
 * @param {string[]} lines
 * @param {string} name
 * @returns {[number, number]}
 */
function blockOf(lines, name) {
  const start = lines.findIndex((line) => new RegExp(`^["']?${word(name)}["']?\\s*:`).test(line));
  if (start < 0) return [lines.length, lines.length];
  const next = lines.findIndex((line, at) => at > start && /^[^\s#\-}\]]/.test(line));
  return [start, next < 0 ? lines.length : next];
}

/** @param {Tree} tree @param {string} indent @returns {string} */
function yaml(tree, indent) {
  return Object.entries(tree)
    .map(([key, value]) =>
      typeof value === "object"
        ? `${indent}${scalar(key)}:\n${yaml(value, `${indent}  `)}`
        : `${indent}${scalar(key)}: ${scalar(value)}\n`,
    )
    .join("");
}

/** @param {Scalar} value */
function scalar(value) {
  const isPlain = typeof value !== "string" || /^(?!(?:true|false|null|yes|no|on|off)$)[a-z_][\w./-]*$/i.test(value);
  return isPlain ? String(value) : JSON.stringify(value);
}

/** @param {string} text */
function word(text) {
  return text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
}
