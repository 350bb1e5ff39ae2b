// The files of an experiment's code: which there are, what is in one, which lines say something.

import { api, ok } from "../api.js";
import { bytes, count, shell, visible } from "../format.js";
import { component, group, h } from "../html.js";
import { useLive } from "../live.js";
import { address, choose, href } from "../router.js";
import { Act } from "../widgets/act.js";
import { CodeView } from "../widgets/code_view.js";
import { Command } from "../widgets/command.js";
import { save } from "../widgets/download.js";
import { pending } from "../widgets/page.js";
import { Tree } from "../widgets/tree.js";
import { Typed } from "../widgets/typed.js";

/** @typedef {import("../store.js").Schemas["FileNode"]} FileNode */

const LARGEST_SHOWN = 1_000_000;
const FIRST_SHOWN = /^(readme|model_def|train|main)\b/i;
const once = { isOver: () => true };

export const Code = component(
  /** @param {{ experiment: number }} props */
  ({ experiment }) => {
    const path = { experiment_id: experiment };
    const { query } = address.value;
    const wanted = query.get("find") ?? "";
    const live = useLive(
      `me: code of ${experiment}`,
      async (signal) =>
        (await ok(api.GET("/api/v1/experiments/{experiment_id}/file_tree", { params: { path }, signal }))).files,
      once,
    );
    if (!live.data) return pending(live);
    const files = live.data;
    if (!files.length)
      return h("p", { class: "empty" }, "It was submitted without files: its configuration says what runs.");
    const chosen = query.get("file") ?? firstOf(files)?.path ?? "";
    const link = (/** @type {string} */ file, /** @type {number} */ line = 0) =>
      href(`experiments/${experiment}/code`, { find: wanted, file, line: line || null });
    return group(
      h(
        "form",
        { class: "bar", role: "search", onSubmit: (event) => event.preventDefault() },
        Typed({
          value: wanted,
          onChange: (find) => choose({ find }),
          attributes: {
            id: "filter",
            type: "search",
            maxLength: 200,
            placeholder: "Find in all files (f)",
            "aria-label": "Find in all files",
          },
        }),
        Act({ verb: "Download all", act: () => downloadAll(experiment) }),
      ),
      wanted && Hits({ experiment, text: wanted, link }),
      h(
        "div",
        { class: "beside" },
        Tree({ label: "Files", nodes: files, current: chosen, link }),
        File({ key: chosen, experiment, file: fileAt(files, chosen), path: chosen }),
      ),
      Command({
        text: wanted
          ? shell`det experiment find-in-code ${experiment} ${wanted}`
          : shell`det experiment download-model-def ${experiment}`,
      }),
    );
  },
);

const Hits = component(
  /** @param {{ experiment: number, text: string, link: (file: string, line: number) => string }} props */
  ({ experiment, text, link }) => {
    const live = useLive(
      `me: lines of ${experiment} with ${text}`,
      (signal) =>
        ok(
          api.GET("/api/v1/windlass/experiments/{experiment_id}/code/find", {
            params: { path: { experiment_id: experiment }, query: { text, ignoreCase: true } },
            signal,
          }),
        ),
      once,
    );
    if (!live.data) return pending(live);
    const { hits, total, files } = live.data;
    return h(
      "div",
      { role: "region", "aria-label": "Lines found" },
      h(
        "p",
        { class: "note", role: "status" },
        `${count(total, "line")} in ${count(files, "text file")}`,
        total > hits.length && `; these are the first ${hits.length}`,
      ),
      h(
        "ul",
        { class: "hits" },
        hits.map((hit) =>
          h(
            "li",
            { key: `${hit.path}:${hit.line}` },
            h("a", { href: link(hit.path, hit.line) }, `${visible(hit.path)}:${hit.line}`),
            " ",
            h("code", null, visible(hit.text)),
          ),
        ),
      ),
    );
  },
);

const File = component(
  /** @param {{ experiment: number, file: FileNode | undefined, path: string }} props */
  ({ experiment, file, path }) => {
    const isText = file?.contentType.startsWith("text/") ?? false;
    const isShown = file !== undefined && isText && file.contentLength <= LARGEST_SHOWN;
    const live = useLive(
      `me: file of ${experiment} ${path}`,
      async () => (isShown ? await contentOf(experiment, path) : new Uint8Array()),
      once,
    );
    if (!file) return h("p", { class: "empty" }, path ? "There is no such file." : "Choose a file.");
    const line = Number(address.value.query.get("line") ?? 0);
    return h(
      "div",
      { class: "file" },
      h(
        "p",
        { class: "bar" },
        h("strong", null, visible(file.path)),
        h("span", { class: "note" }, bytes(file.contentLength)),
        Act({
          verb: "Download",
          of: file.path,
          act: async () => save(file.name, new Blob([await contentOf(experiment, path)])),
        }),
      ),
      isShown
        ? live.data
          ? CodeView({ label: file.path, text: new TextDecoder().decode(live.data), line })
          : pending(live)
        : h("p", { class: "empty" }, isText ? "It is too large to be shown here." : "It is not a text."),
    );
  },
);

/** @param {FileNode[]} files @param {string} path @returns {FileNode | undefined} */
function fileAt(files, path) {
  for (const one of files) {
    if (one.path === path) return one.isDir ? undefined : one;
    if (one.isDir && path.startsWith(`${one.path}/`)) return fileAt(one.files, path);
  }
  return undefined;
}

/** What people look at first. @param {FileNode[]} files */
function firstOf(files) {
  const plain = files.filter((one) => !one.isDir);
  return plain.find((one) => FIRST_SHOWN.test(one.name)) ?? plain[0];
}

/** @param {number} experiment @param {string} path */
async function contentOf(experiment, path) {
  const { file } = await ok(
    api.POST("/api/v1/experiments/{experiment_id}/file", {
      params: { path: { experiment_id: experiment } },
      body: { path },
    }),
  );
  return bytesOf(file);
}

/** @param {number} experiment */
async function downloadAll(experiment) {
  const { b64Tgz } = await ok(
    api.GET("/api/v1/experiments/{experiment_id}/model_def", { params: { path: { experiment_id: experiment } } }),
  );
  save(`experiment-${experiment}.tar.gz`, new Blob([bytesOf(b64Tgz)]));
}

/** @param {string} base64 */
function bytesOf(base64) {
  return Uint8Array.from(atob(base64), (one) => one.charCodeAt(0));
}
