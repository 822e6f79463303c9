// Questions to the service, with the entity tag of the last answer: an answer that is the same has no body.

const kept = new Map(); // by path: {tag, value}
const KEPT = 20;

/** The service does not answer. */
export class Unreachable extends Error {}

/** The service answers that the question is invalid, or that it has no answer; the text is its own. */
export class Refused extends Error {}

/** Ask; {value, same}: `same` if the answer is the one before. */
export async function ask(question, parameters = {}, signal = undefined) {
  const query = new URLSearchParams(Object.entries(parameters).filter(([, value]) => value !== "")).toString();
  const path = `api/dashboard/${question}${query ? "?" + query : ""}`;
  const known = kept.get(path);
  let answer, value;
  try {
    const headers = known ? {"If-None-Match": known.tag} : {};
    answer = await fetch(path, {headers, signal: AbortSignal.any([AbortSignal.timeout(20000), signal].filter(Boolean))});
    if (answer.status === 304) return {value: known.value, same: true};
    value = await answer.json();
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Unreachable(error.message);
  }
  if (answer.status >= 500) throw new Unreachable(value.error ?? String(answer.status));
  if (!answer.ok) throw new Refused(value.error ?? String(answer.status));
  kept.delete(path);
  kept.set(path, {tag: answer.headers.get("ETag"), value});
  if (kept.size > KEPT) kept.delete(kept.keys().next().value);
  return {value, same: false};
}
