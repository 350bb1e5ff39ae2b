// A new experiment: written, forked, continued, or begun at a checkpoint; checked and planned before it is submitted.

import { useEffect, useRef, useState } from "../../vendor/hooks.js";
import { api, ok } from "../api.js";
import { shell } from "../format.js";
import { component, h } from "../html.js";
import { useLive } from "../live.js";
import { address, go, href } from "../router.js";
import { say } from "../store.js";
import { Command } from "../widgets/command.js";
import { Editor } from "../widgets/editor.js";
import { FolderInput, contentsOf, isTooLarge } from "../widgets/folder.js";
import { Heading, pending } from "../widgets/page.js";
import { beginning } from "./new_beginnings.js";
import { Places } from "./new_places.js";
import { SubmissionPreview } from "./submission_preview.js";

/** @typedef {import("../store.js").Schemas} Schemas */
/** @typedef {import("./new_beginnings.js").Beginning} Beginning */
/** @typedef {import("../widgets/folder.js").Folder} Folder */
/** @typedef {{ text: string, project: number, template: string, folder: Folder | null, isPaused: boolean }} Draft */

const TYPED_MS = 500;
const PLAN_EVERY_MS = 30_000;
const NEVER_MS = 2 ** 31 - 1;
/**
 * What was typed and not submitted, by the address: who goes elsewhere and comes back finds it.
 *
 * @type {Map<string, Draft>}
 */
const drafts = new Map();

export default component(
  /** @param {import("../routes.js").PageProps} _props */
  (_props) => {
    const query = address.value.query.toString();
    return Begun({ key: query, query });
  },
);

const Begun = component(
  /** @param {{ query: string }} props */
  ({ query }) => {
    const live = useLive(`me: new ${query}`, (signal) => beginning(new URLSearchParams(query), signal), {
      isOver: () => true,
      everyMs: NEVER_MS,
    });
    // What one writes stays when that from which it began is deleted meanwhile.
    const first = useRef(live.data);
    if (live.data) first.current = live.data;
    if (!first.current) return h("section", null, Heading({ title: "New experiment" }), pending(live));
    return Writing({ place: query, first: first.current });
  },
);

const Writing = component(
  /** @param {{ place: string, first: Beginning }} props */
  ({ place, first }) => {
    const { text: firstText, project, template, parent, continues } = first;
    const [draft, setDraft] = useState(
      () => drafts.get(place) ?? { text: firstText, project, template, folder: null, isPaused: false },
    );
    const change = (/** @type {Partial<Draft>} */ changes) => {
      const next = { ...draft, ...changes };
      drafts.set(place, next);
      setDraft(next);
    };
    const checks = useChecks(draft, continues);
    const sending = useSubmit(first, draft, () => drafts.delete(place));
    useWarning(draft.text !== firstText && !sending.isDone);
    const problems = checks.preview?.problems ?? [];
    return h(
      "section",
      null,
      Heading({ title: first.title }),
      h("p", { class: "note" }, first.note),
      h(
        "div",
        { class: "new-page" },
        h(
          "form",
          { onSubmit: sending.send },
          !continues && Places({ draft, change }),
          Editor({
            id: "config",
            label: continues ? "Changes of its configuration (YAML)" : "Configuration (YAML)",
            value: draft.text,
            onChange: (text) => change({ text }),
            problems,
            rows: continues ? 8 : 20,
          }),
          !continues && Files({ parent, folder: draft.folder, change }),
          !continues &&
            h(
              "label",
              null,
              h("input", {
                type: "checkbox",
                checked: draft.isPaused,
                onChange: (event) => change({ isPaused: event.currentTarget.checked }),
              }),
              " paused: it starts when somebody resumes it",
            ),
          sending.error && h("p", { class: "problem", role: "alert" }, sending.error),
          h(
            "p",
            { class: "bar" },
            h(
              "button",
              { type: "submit", disabled: sending.isBusy || Boolean(draft.folder && isTooLarge(draft.folder)) },
              sending.isBusy ? "…" : continues ? "Continue" : "Submit",
            ),
          ),
        ),
        SubmissionPreview(checks),
      ),
      Command({ text: commandOf(first, draft) }),
    );
  },
);

const Files = component(
  /** @param {{ parent: number, folder: Folder | null, change: (changes: Partial<Draft>) => void }} props */
  ({ parent, folder, change }) =>
    h(
      "fieldset",
      null,
      h("legend", null, "Files"),
      parent > 0 &&
        h(
          "p",
          { class: "note" },
          folder ? `These instead of the files of experiment ${parent}.` : `Those of experiment ${parent}.`,
        ),
      FolderInput({
        id: "folder",
        label: parent ? "Other files: a folder" : "A folder of model code; may be left out",
        folder,
        onChange: (chosen) => change({ folder: chosen }),
      }),
    ),
);

/**
 * What the master says of it, asked when somebody has stopped typing, and now and then: free slots come and go.
 *
 * @param {Draft} draft
 * @param {number} continues
 */
function useChecks({ text, project, template }, continues) {
  const wanted = JSON.stringify({ config: text, continues, ...(continues ? {} : { projectId: project, template }) });
  const [asked, ask] = useState(wanted);
  useEffect(() => {
    const timer = setTimeout(() => ask(wanted), TYPED_MS);
    return () => clearTimeout(timer);
  }, [wanted]);
  const body = /** @type {Schemas["PreviewExperiment"]} */ (JSON.parse(asked));
  const { data, error } = useLive(
    `fleet: preview of ${asked}`,
    (signal) => ok(api.POST("/api/v1/windlass/experiments/preview", { body, signal })),
    { everyMs: PLAN_EVERY_MS },
  );
  const newest = useRef(data);
  if (data) newest.current = data;
  return { preview: newest.current, error: data ? null : error, isCurrent: data !== null && asked === wanted };
}

/** @param {Beginning} first @param {Draft} draft @param {() => void} done */
function useSubmit({ parent, continues }, draft, done) {
  const [state, setState] = useState({ isBusy: false, isDone: false, error: "" });
  const send = async (/** @type {SubmitEvent} */ event) => {
    event.preventDefault();
    setState({ isBusy: true, isDone: false, error: "" });
    try {
      const id = continues ? await goOn(continues, draft.text) : await create(draft, parent);
      done();
      setState({ isBusy: false, isDone: true, error: "" });
      go(href(`experiments/${id}`));
    } catch (error) {
      setState({ isBusy: false, isDone: false, error: error instanceof Error ? error.message : String(error) });
    }
  };
  return { ...state, send };
}

/** @param {Draft} draft @param {number} parent */
async function create({ text, project, template, folder, isPaused }, parent) {
  const { experiment, configWarnings } = await ok(
    api.POST("/api/v1/experiments", {
      body: {
        config: text,
        projectId: project,
        template,
        parentId: parent,
        activate: !isPaused,
        modelDefinition: folder ? await contentsOf(folder) : [],
      },
    }),
  );
  for (const warning of configWarnings) say(warning);
  return experiment.id;
}

/** @param {number} id @param {string} overrideConfig */
async function goOn(id, overrideConfig) {
  await ok(api.POST("/api/v1/experiments/continue", { body: { id, overrideConfig } }));
  return id;
}

/** Browsers ask before they close or reload a page with unsaved text. @param {boolean} isUnsaved */
function useWarning(isUnsaved) {
  useEffect(() => {
    if (!isUnsaved) return;
    const ask = (/** @type {BeforeUnloadEvent} */ event) => event.preventDefault();
    addEventListener("beforeunload", ask);
    return () => removeEventListener("beforeunload", ask);
  }, [isUnsaved]);
}

/** @param {Beginning} first @param {Draft} draft */
function commandOf({ parent, continues }, { template, project, isPaused }) {
  if (continues) return shell`det experiment continue ${continues} --config-file changes.yaml`;
  const [base, paused] = [template ? shell` --template ${template}` : "", isPaused ? " --paused" : ""];
  if (parent) return shell`det experiment fork ${parent} --config-file config.yaml` + paused;
  return `det experiment create config.yaml .${base}${project ? ` --project_id ${project}` : ""}${paused}`;
}
