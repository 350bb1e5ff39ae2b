// Text of a JSON object that a person wrote.

/**
 * Raises Error, which names the field.
 *
 * @param {string} field
 * @param {string | undefined} text
 * @returns {Record<string, unknown>}
 */
export function objectOf(field, text) {
  let value;
  try {
    value = JSON.parse(text || "{}");
  } catch (error) {
    throw new Error(`${field}: not JSON: ${error instanceof Error ? error.message : error}`);
  }
  if (typeof value !== "object" || value === null || Array.isArray(value))
    throw new Error(`${field}: expected an object, such as {"labels": ["x"]}`);
  return value;
}

/** @param {unknown} value */
export function text(value) {
  return JSON.stringify(value, null, 2);
}
