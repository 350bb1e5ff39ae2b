// What numbers say of each other. Nothing here touches the page.

/** @param {unknown} one @returns {one is number} */
function isNumber(one) {
  return typeof one === "number" && Number.isFinite(one);
}

/** Of each value its place in their order, from 1; equal ones share the mean of theirs. @param {number[]} values */
export function ranksOf(values) {
  const order = values.map((_, at) => at).sort((a, b) => Number(values[a]) - Number(values[b]));
  const ranks = values.map(() => 0);
  for (let from = 0; from < order.length;) {
    let to = from;
    while (to + 1 < order.length && values[Number(order[to + 1])] === values[Number(order[from])]) to += 1;
    for (let at = from; at <= to; at += 1) ranks[Number(order[at])] = (from + to) / 2 + 1;
    from = to + 1;
  }
  return ranks;
}

/** @param {number[]} values */
export function median(values) {
  const sorted = values.filter(isNumber).sort((a, b) => a - b);
  const middle = (sorted.length - 1) / 2;
  return sorted.length ? (Number(sorted[Math.floor(middle)]) + Number(sorted[Math.ceil(middle)])) / 2 : null;
}

/** @param {number[]} x @param {number[]} y */
function correlation(x, y) {
  const mean = (/** @type {number[]} */ all) => all.reduce((a, b) => a + b, 0) / all.length;
  const [mx, my] = [mean(x), mean(y)];
  let [xy, xx, yy] = [0, 0, 0];
  for (const [at, one] of x.entries()) {
    const [dx, dy] = [one - mx, Number(y[at]) - my];
    xy += dx * dy;
    xx += dx * dx;
    yy += dy * dy;
  }
  return xx && yy ? xy / Math.sqrt(xx * yy) : 0;
}

/** The share of the variance of `y` that lies between groups. @param {string[]} groups @param {number[]} y */
function betweenGroups(groups, y) {
  /** @type {Map<string, { sum: number, count: number }>} */
  const sums = new Map();
  const mean = y.reduce((a, b) => a + b, 0) / y.length;
  for (const [at, group] of groups.entries()) {
    const known = sums.get(group) ?? { sum: 0, count: 0 };
    sums.set(group, { sum: known.sum + Number(y[at]), count: known.count + 1 });
  }
  const all = y.reduce((sum, one) => sum + (one - mean) ** 2, 0);
  const between = [...sums.values()].reduce((sum, one) => sum + one.count * (one.sum / one.count - mean) ** 2, 0);
  return { share: all ? between / all : 0, groups: sums.size };
}

export const LEAST_ROWS = 10;

/** @typedef {{ share: number, rows: number, sign: number }} Importance `sign`: of the correlation, 0 for words */

/**
 * How much of the order of a metric one quantity alone explains: of the variance of its ranks the share that goes with
 * the ranks of numbers (Spearman's correlation, squared), or lies between the groups of words (Kruskal and Wallis's
 * epsilon squared); less what chance would give on average.
 *
 * @param {unknown[]} values
 * @param {(number | null)[]} metric
 * @returns {Importance | null} null: too few
 */
export function importance(values, metric) {
  const known = values.flatMap((one, at) => (one === null || one === undefined || !isNumber(metric[at]) ? [] : [at]));
  const ranks = ranksOf(known.map((at) => Number(metric[at])));
  const own = known.map((at) => values[at]);
  const rows = known.length;
  if (rows < LEAST_ROWS) return null;
  let [share, groups, sign] = [0, 2, 0];
  if (own.every(isNumber)) {
    const found = correlation(ranksOf(own), ranks);
    [share, sign] = [found ** 2, Math.sign(found)];
  } else {
    ({ share, groups } = betweenGroups(
      own.map((one) => JSON.stringify(one)),
      ranks,
    ));
  }
  if (rows <= groups) return null;
  return { share: Math.max(0, 1 - ((1 - share) * (rows - 1)) / (rows - groups)), rows, sign };
}
