// A folder of files that are uploaded with a submission, without what `.detignore` in it names, as `det` does.

import { useState } from "../../vendor/hooks.js";
import { bytes, count } from "../format.js";
import { component, h } from "../html.js";
import { ignoring } from "../ignore.js";

/** @typedef {import("../store.js").Schemas["FileBody"]} FileBody */
/**
 * @typedef {object} Folder
 * @property {string} name
 * @property {{ path: string, file: File }[]} files that are uploaded
 * @property {number} size of them
 * @property {number} leftOut
 * @property {string} rules the file that left them out; empty: none
 */

/** Of all contents together: the API's own limit. */
const MOST_BYTES = 95 * 1024 * 1024;
/** The type of a file in tar archives. */
const REGULAR = 48;
const RULES = [".detignore", ".gitignore"];
/** What `det` never uploads. */
const NEVER = [
  "__pycache__/",
  "*.py[co]",
  "*$py.class",
  "terraform",
  "terraform_data",
  "terraform.tfstate*",
  "terraform.tfvars*",
  ".terraform*",
  ".git/",
  ".vscode/",
  ".idea/",
  ".mypy_cache/",
  "/shared_fs",
  "/.detignore",
];

/** @param {Folder} folder */
export function isTooLarge({ size }) {
  return size > MOST_BYTES;
}

export const FolderInput = component(
  /** @param {{ id: string, label: string, folder: Folder | null, onChange: (folder: Folder | null) => void }} props */
  ({ id, label, folder, onChange }) => {
    const [problem, setProblem] = useState("");
    const choose = async (/** @type {FileList | null} */ list) => {
      setProblem("");
      try {
        onChange(list?.length ? await folderOf([...list]) : null);
      } catch (error) {
        setProblem(`It cannot be read: ${error instanceof Error ? error.message : error}`);
        onChange(null);
      }
    };
    return h(
      "div",
      { class: "folder" },
      h("label", { for: id }, label, " "),
      h("input", {
        id,
        type: "file",
        multiple: true,
        ...{ webkitdirectory: true },
        "aria-describedby": `${id}-note`,
        onChange: (event) => void choose(event.currentTarget.files),
      }),
      h(
        "p",
        { id: `${id}-note`, class: problem || (folder && isTooLarge(folder)) ? "problem" : "note", role: "status" },
        problem || (folder ? sentence(folder) : ""),
      ),
    );
  },
);

/** @param {Folder} folder */
function sentence(folder) {
  const { files, size, leftOut, rules } = folder;
  const out = leftOut
    ? `; ${count(leftOut, "file")} left out${rules ? ` by ${rules} and what is never sent` : ""}`
    : "";
  const sum = `${count(files.length, "file")}, ${bytes(size)} of at most ${bytes(MOST_BYTES)}${out}.`;
  if (!isTooLarge(folder)) return sum;
  const largest = files.reduce((one, other) => (other.file.size > one.file.size ? other : one));
  const way = "name data in .detignore and mount it with bind_mounts";
  return `${sum} That is too much: ${way}. The largest is ${largest.path}.`;
}

/** @param {File[]} all */
async function folderOf(all) {
  const found = all.map((file) => {
    const [root = "", ...rest] = file.webkitRelativePath.split("/");
    return { root, path: rest.join("/"), file };
  });
  const rules = RULES.map((name) => found.find(({ path }) => path === name)).find(Boolean);
  const isOut = ignoring([...NEVER, ...(rules ? (await rules.file.text()).split("\n") : [])]);
  const files = found.filter(({ path }) => !isOut(path)).sort((one, other) => (one.path < other.path ? -1 : 1));
  return {
    name: found[0]?.root ?? "",
    files,
    size: files.reduce((sum, { file }) => sum + file.size, 0),
    leftOut: found.length - files.length,
    rules: rules?.path ?? "",
  };
}

/** As they are sent. @param {Folder} folder @returns {Promise<FileBody[]>} */
export async function contentsOf({ files }) {
  return Promise.all(
    files.map(async ({ path, file }) => ({
      path,
      type: REGULAR,
      content: await base64(file),
      mtime: Math.floor(file.lastModified / 1000),
    })),
  );
}

/** @param {File} file @returns {Promise<string>} */
function base64(file) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result).replace(/^[^,]*,/, ""));
    reader.onerror = () => reject(new Error(`${file.name}: ${reader.error?.message ?? "it cannot be read"}`));
    reader.readAsDataURL(file);
  });
}
