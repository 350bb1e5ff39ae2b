// A moment: the reader's time, with the zone in a tool tip; nothing where there is none.

import { fullTime, time } from "../format.js";
import { h } from "../html.js";

/** @param {string | null | undefined} at */
export function moment(at) {
  return at ? h("time", { dateTime: at, title: fullTime(at) }, time(at)) : "";
}
