// Starting TensorBoards of experiments and trials, and going on to them.

import { api, ok } from "../api.js";
import { component } from "../html.js";
import { ROOT } from "../router.js";
import { say } from "../store.js";
import { Act } from "../widgets/act.js";
import { FormButton, words } from "../widgets/form.js";

/** @typedef {{ experiments?: number[], trials?: number[], workspace?: number }} Shown workspace: where it belongs */

export const TensorBoardButton = component(
  /** @param {Shown} props */
  (props) =>
    Act({
      verb: "TensorBoard",
      hint: "Starts a TensorBoard that shows them, and opens it",
      act: async () => location.assign(taskPage("tensorboard", await start(props))),
    }),
);

export const TensorBoardForm = component(
  /** @param {{ onLaunch: (id: string) => void }} props */
  ({ onLaunch }) =>
    FormButton({
      verb: "Start a tensorboard…",
      title: "Start a TensorBoard",
      fields: [
        { name: "experimentIds", label: "Experiments", hint: "Ids, with commas between them" },
        { name: "trialIds", label: "Trials", hint: "Of other experiments: ids, with commas between them" },
      ],
      submit: async ({ experimentIds, trialIds }) =>
        onLaunch(await start({ experiments: ids(experimentIds), trials: ids(trialIds) })),
    }),
);

/** @param {Shown} shown @returns {Promise<string>} the id of its task */
async function start({ experiments = [], trials = [], workspace = 0 }) {
  const body = { experimentIds: experiments, trialIds: trials, workspaceId: workspace };
  const { tensorboard, configWarnings } = await ok(api.POST("/api/v1/tensorboards", { body }));
  for (const warning of configWarnings) say(warning);
  return tensorboard.id;
}

/** @param {string | undefined} text */
function ids(text) {
  return words(text).map(Number);
}

/** The page that waits until a task can be opened, and goes on to it. @param {string} word @param {string} id */
export function taskPage(word, id) {
  return `${ROOT}det/wait/${word}/${encodeURIComponent(id)}`;
}
