// Patterns of `.detignore` and `.gitignore`: which files of a folder are left out, as git decides it.

/**
 * @param {string[]} lines the last that fits decides
 * @returns {(path: string) => boolean} whether this file, or a folder that it is in, is left out
 */
export function ignoring(lines) {
  const rules = lines.flatMap(ruleOf);
  const isOut = (/** @type {string} */ path, /** @type {boolean} */ isFolder) => {
    let out = false;
    for (const { pattern, isNegative, forFolders } of rules) {
      if ((isFolder || !forFolders) && pattern.test(path)) out = !isNegative;
    }
    return out;
  };
  return (path) => {
    const parts = path.split("/");
    const above = parts.slice(0, -1).some((_, at) => isOut(parts.slice(0, at + 1).join("/"), true));
    return above || isOut(path, false);
  };
}

/** @param {string} line */
function ruleOf(line) {
  let text = line.replace(/\r$/, "").replace(/(?<!\\)\s+$/, "");
  if (!text || text.startsWith("#")) return [];
  const isNegative = text.startsWith("!");
  if (isNegative) text = text.slice(1);
  const forFolders = text.endsWith("/");
  if (forFolders) text = text.slice(0, -1);
  const isAnchored = text.includes("/");
  if (text.startsWith("/")) text = text.slice(1);
  if (!text) return [];
  const pattern = new RegExp(`^${isAnchored ? "" : "(?:.*/)?"}${expression(text)}$`, "s");
  return [{ pattern, isNegative, forFolders }];
}

const WORDS = /\*\*\/|\/\*\*$|\*+|\?|\[(?:\\.|[^\]\\])(?:\\.|[^\]\\])*\]|\\.|[^]/gu;

/** @param {string} glob */
function expression(glob) {
  return (glob.match(WORDS) ?? [])
    .map((word) => {
      if (word === "**/") return "(?:.*/)?";
      if (word === "/**") return "/.*";
      if (word.startsWith("*")) return "[^/]*";
      if (word === "?") return "[^/]";
      if (word.length > 2 && word.startsWith("[")) return word.replace(/^\[!/, "[^").replace(/(?<=.)\[/g, "\\[");
      return (word.length > 1 ? word.slice(1) : word).replace(/[.*+?^${}()|[\]\\/]/g, "\\$&");
    })
    .join("");
}
