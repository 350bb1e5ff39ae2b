// Files that the browser makes of what a page shows.

/** Its cells are quoted where they need it, and no program takes one for a formula. @param {unknown[][]} rows */
export function csvOf(rows) {
  return rows.map((row) => `${row.map(cell).join(",")}\r\n`).join("");
}

/** @param {unknown} value */
function cell(value) {
  if (value === null || value === undefined) return "";
  if (typeof value === "number" || typeof value === "boolean") return String(value);
  const text = typeof value === "object" ? JSON.stringify(value) : String(value);
  const plain = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(plain) ? `"${plain.replaceAll('"', '""')}"` : plain;
}

/** @param {string} title @param {unknown[][]} rows the first has the names of the columns */
export function saveCsv(title, rows) {
  save(`${fileName(title)}.csv`, new Blob([csvOf(rows)], { type: "text/csv" }));
}

const TITLE_PX = 28;

/**
 * With its title above it, and as the page has it: light or dark.
 *
 * @param {string} title
 * @param {HTMLCanvasElement} drawn
 */
export function savePng(title, drawn) {
  const scale = window.devicePixelRatio || 1;
  const sheet = document.createElement("canvas");
  sheet.width = drawn.width;
  sheet.height = drawn.height + TITLE_PX * scale;
  const pen = /** @type {CanvasRenderingContext2D} */ (sheet.getContext("2d"));
  const style = getComputedStyle(document.body);
  pen.fillStyle = style.backgroundColor;
  pen.fillRect(0, 0, sheet.width, sheet.height);
  pen.fillStyle = style.color;
  pen.font = `600 ${14 * scale}px system-ui`;
  pen.textBaseline = "middle";
  pen.fillText(title, 8 * scale, (TITLE_PX / 2) * scale);
  pen.drawImage(drawn, 0, TITLE_PX * scale);
  sheet.toBlob((blob) => blob && save(`${fileName(title)}.png`, blob));
}

/** @param {string} title */
function fileName(title) {
  return title.replaceAll(/[^\w.-]+/g, "-").replaceAll(/^[-.]+|-+$/g, "") || "chart";
}

/** @param {string} name @param {Blob} content */
export function save(name, content) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(content);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
