// The REST API, typed by its own description: `const { trial } = await ok(api.GET("/api/v1/trials/{trial_id}", ...))`.

import createClient from "../vendor/openapi-fetch.js";
import { ROOT } from "./router.js";
import { isAway, isSessionOver } from "./store.js";

/** @typedef {import("./openapi.js").paths} Paths */
/** @typedef {import("./openapi.js").components["schemas"]} Schemas */

/** @type {import("../vendor/openapi-fetch.js").Client<Paths>} */
export const api = createClient({ baseUrl: new URL(ROOT, location.href).href.replace(/\/$/, ""), cache: "no-store" });

/** @typedef {{ start: number, end: number }} Place in characters, from 0 */

/** What the master refused, in its own words. */
export class ApiError extends Error {
  /**
   * @param {number} status
   * @param {string} message
   * @param {Place | null} [place] where the text that was sent is wrong
   */
  constructor(status, message, place = null) {
    super(message);
    this.status = status;
    this.place = place;
  }
}

/** No answer at all, or one of a proxy before it. */
export class AwayError extends Error {}

const AWAY = new Set([502, 503, 504]);

/**
 * The body of a reply. Raises ApiError and AwayError.
 *
 * @template Data
 * @param {Promise<{ data?: Data, error?: unknown, response: Response }>} call
 * @returns {Promise<Data>}
 */
export async function ok(call) {
  const { data, error, response } = await answered(call);
  if (response.ok) return /** @type {Data} */ (data);
  if (response.status === 401) isSessionOver.value = true;
  throw new ApiError(response.status, sentenceOf(error) ?? `The master answered ${response.status}.`, placeOf(error));
}

/** The master's own words; a proxy before it has none. @param {unknown} error */
function sentenceOf(error) {
  const isBody = typeof error === "object" && error !== null && "message" in error;
  return isBody ? String(error.message) : null;
}

/** @param {any} error @returns {Place | null} */
function placeOf(error) {
  const { start, end } = error?.error ?? {};
  return typeof start === "number" && typeof end === "number" ? { start, end } : null;
}

/**
 * The lines of a stream that ends: `await lines(api.GET("/api/v1/tasks/{task_id}/logs", { ..., parseAs: "text" }))`.
 *
 * @param {Promise<{ data?: string, error?: unknown, response: Response }>} call
 * @returns {Promise<unknown[]>}
 */
export async function lines(call) {
  const found = [];
  for (const line of (await ok(call)).split("\n")) {
    if (line) found.push(resultOf(line));
  }
  return found;
}

/**
 * The same one by one as they come: `for await (const step of results(api.GET(..., { parseAs: "stream", signal })))`.
 *
 * @param {Promise<{ data?: ReadableStream<Uint8Array> | null, error?: unknown, response: Response }>} call
 * @returns {AsyncGenerator<unknown>}
 */
export async function* results(call) {
  const reader = (await ok(call))?.getReader();
  if (!reader) return;
  const decoder = new TextDecoder();
  let rest = "";
  try {
    for (let isOver = false; !isOver;) {
      const { done, value } = await reader.read();
      isOver = done;
      rest += decoder.decode(value, { stream: !done });
      const whole = rest.split("\n");
      rest = whole.pop() ?? "";
      for (const line of whole) yield resultOf(line);
    }
  } finally {
    void reader.cancel().catch(() => undefined); // aborted already
  }
}

/** @param {string} line */
function resultOf(line) {
  const { result, error } = JSON.parse(line);
  if (error) throw new ApiError(500, String(error.message ?? "The master ended the list with an error."));
  return result;
}

/**
 * @template {{ error?: unknown, response: Response }} Answer
 * @param {Promise<Answer>} call
 */
async function answered(call) {
  let answer;
  try {
    answer = await call;
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    isAway.value = true;
    throw new AwayError("The master does not answer.");
  }
  isAway.value = AWAY.has(answer.response.status) && sentenceOf(answer.error) === null;
  if (isAway.value) throw new AwayError("The master does not answer.");
  return answer;
}

/**
 * A number of a reply: JSON has no words for some, and 64-bit integers come as text.
 *
 * @param {unknown} value
 * @returns {number | null}
 */
export function number(value) {
  if (typeof value === "number") return value;
  if (typeof value !== "string" || value === "") return null;
  const named = { NaN, Infinity, "-Infinity": -Infinity };
  return value in named ? named[/** @type {keyof typeof named} */ (value)] : Number(value);
}

/**
 * A log line's place: 64 bits, which a number would round.
 *
 * @param {string} text
 */
export function int64(text) {
  return BigInt(text);
}
