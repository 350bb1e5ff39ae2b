// What the page of a new experiment begins with: nothing, another experiment, or a checkpoint that it goes on from.

import { api, number, ok } from "../api.js";
import { readable, withKey, withSection } from "../config_text.js";

/** @typedef {import("../store.js").Schemas} Schemas */
/**
 * @typedef {object} Beginning
 * @property {string} title
 * @property {string} note what the page does
 * @property {string} text of the configuration; of a continuation its override
 * @property {number} project 0: as the configuration says
 * @property {string} template empty: none
 * @property {number} parent whose files it gets; 0: none
 * @property {number} continues the experiment that goes on; 0: a new one
 */

const FIRST = `name: my experiment
entrypoint: python3 train.py
searcher:
  name: single
  metric: loss
  smaller_is_better: true
hyperparameters: {}
resources:
  slots_per_trial: 1
max_restarts: 0
`;
const SEARCH_TRIALS = 16;
const AT_ONCE = 4;
const CHECKPOINTS = ["source_trial_id", "source_checkpoint_uuid"];

/**
 * By what the address names: `fork`, `continue`, `trial`, `search`, `checkpoint`, or a `project` alone.
 *
 * @param {URLSearchParams} query
 * @param {AbortSignal} signal
 * @returns {Promise<Beginning>}
 */
export async function beginning(query, signal) {
  const named = (/** @type {string} */ word) => Number(query.get(word) ?? 0);
  const uuid = query.get("checkpoint");
  if (named("continue")) return goOn(named("continue"), signal);
  if (named("fork")) return fork(named("fork"), signal);
  if (named("trial")) return fromTrial(named("trial"), signal);
  if (named("search")) return searchFrom(named("search"), signal);
  if (uuid) return fromCheckpoint(uuid, signal);
  return {
    title: "New experiment",
    note: "Its configuration is checked as you type; nothing starts before you submit it.",
    text: FIRST,
    project: named("project"),
    template: "",
    parent: 0,
    continues: 0,
  };
}

/** @param {number} id @param {AbortSignal} signal @returns {Promise<Beginning>} */
async function goOn(id, signal) {
  const { experiment } = await read(id, signal);
  return {
    title: `Continue experiment ${id}`,
    note:
      `${experiment.name} goes on from its last checkpoints. ` +
      "What you write here changes its configuration; a search takes no change.",
    text: "",
    project: experiment.projectId,
    template: "",
    parent: 0,
    continues: id,
  };
}

/** @param {number} id @param {AbortSignal} signal @returns {Promise<Beginning>} */
async function fork(id, signal) {
  const { experiment, template } = await read(id, signal);
  const text = experiment.originalConfig;
  return {
    title: `Fork of experiment ${id}`,
    note: `A new experiment with the configuration of ${experiment.name}, to be changed.`,
    text: readable(text),
    project: experiment.projectId,
    template: isComplete(experiment) ? "" : template,
    parent: id,
    continues: 0,
  };
}

/** @param {number} id @param {AbortSignal} signal @returns {Promise<Beginning>} */
async function fromTrial(id, signal) {
  const trial = await readTrial(id, signal);
  const forked = await fork(trial.experimentId, signal);
  return {
    ...forked,
    title: `New experiment from trial ${id}`,
    note: `Its trials begin with the newest checkpoint of trial ${id}.`,
    text: withKey(forked.text, "searcher", "source_trial_id", id, CHECKPOINTS),
  };
}

/** @param {string} uuid @param {AbortSignal} signal @returns {Promise<Beginning>} */
async function fromCheckpoint(uuid, signal) {
  const params = { path: { checkpoint_uuid: uuid } };
  const { checkpoint } = await ok(api.GET("/api/v1/checkpoints/{checkpoint_uuid}", { params, signal }));
  const experiment = checkpoint.training.experimentId;
  if (!experiment)
    throw new Error(`Checkpoint ${uuid} is of no experiment: name it in searcher.source_checkpoint_uuid.`);
  const forked = await fork(experiment, signal);
  return {
    ...forked,
    title: "New experiment from a checkpoint",
    note: `Its trials begin with checkpoint ${uuid}.`,
    text: withKey(forked.text, "searcher", "source_checkpoint_uuid", uuid, CHECKPOINTS),
  };
}

/**
 * Random points around those of a trial.
 *
 * @param {number} id
 * @param {AbortSignal} signal
 * @returns {Promise<Beginning>}
 */
async function searchFrom(id, signal) {
  const trial = await readTrial(id, signal);
  const { experiment } = await read(trial.experimentId, signal);
  const forked = await fork(trial.experimentId, signal);
  const old = /** @type {Record<string, any>} */ (experiment.config?.searcher ?? {});
  const searcher = {
    name: "random",
    metric: String(old.metric ?? "loss"),
    smaller_is_better: old.smaller_is_better !== false,
    max_trials: SEARCH_TRIALS,
    max_concurrent_trials: AT_ONCE,
  };
  const text = withSection(forked.text, "searcher", searcher);
  const around = aroundAll(trial.hparams);
  return {
    ...forked,
    title: `Search around trial ${id}`,
    note: `${SEARCH_TRIALS} trials with values from half to twice those of trial ${id}: narrow or widen them.`,
    text: Object.keys(around).length ? withSection(text, "hyperparameters", around) : text,
  };
}

/**
 * @param {Record<string, unknown>} values
 * @returns {import("../config_text.js").Tree}
 */
function aroundAll(values) {
  return Object.fromEntries(Object.entries(values).map(([name, value]) => [name, around(value)]));
}

/** @param {unknown} value @returns {import("../config_text.js").Scalar | import("../config_text.js").Tree} */
function around(value) {
  if (typeof value === "object" && value !== null && !Array.isArray(value)) {
    return aroundAll(/** @type {Record<string, unknown>} */ (value));
  }
  const known = typeof value === "boolean" ? null : number(value);
  if (known === null || !known || !Number.isFinite(known)) {
    const isText = typeof value === "string" || typeof value === "boolean" || typeof value === "number";
    return isText ? value : JSON.stringify(value);
  }
  const [low, high] = [known / 2, known * 2].sort((one, other) => one - other);
  if (!Number.isInteger(known)) return { type: "double", minval: low ?? 0, maxval: high ?? 0 };
  return { type: "int", minval: Math.floor(low ?? 0), maxval: Math.ceil(high ?? 0) };
}

/**
 * Others than its owner are given the complete configuration, its template included.
 *
 * @param {Schemas["Experiment"]} experiment
 */
function isComplete({ originalConfig, config }) {
  try {
    return JSON.stringify(JSON.parse(originalConfig)) === JSON.stringify(config);
  } catch {
    return false;
  }
}

/** @param {number} id @param {AbortSignal} signal */
function read(id, signal) {
  return ok(api.GET("/api/v1/experiments/{experiment_id}", { params: { path: { experiment_id: id } }, signal }));
}

/** @param {number} id @param {AbortSignal} signal */
async function readTrial(id, signal) {
  return (await ok(api.GET("/api/v1/trials/{trial_id}", { params: { path: { trial_id: id } }, signal }))).trial;
}
