// The steps of a funnel as the address has them: ?step=pathname:/pricing&step=event_name:signup. Pure.
//
// A step: { field, value }; field is pathname (a view of that page) or event_name (a custom event of that name).

import { number } from "../shared/formats.js";

// CONTRACT: a funnel has 2 to 8 steps.
export const MIN_STEPS = 2;
export const MAX_STEPS = 8;
export const KINDS = { pathname: "Page", event_name: "Event" };

/** What this page has of its own in the address; what is no step, and what is too much, is passed over. */
export const STEPS_STATE = {
  read: (query) => ({ steps: query.getAll("step").map(parsed).filter(Boolean).slice(0, MAX_STEPS) }),
  write: ({ steps }) => steps.map((step) => ["step", stepText(step)]),
};

function parsed(text) {
  const at = text.indexOf(":");
  const [field, value] = [text.slice(0, at), text.slice(at + 1)];
  return at > 0 && Object.hasOwn(KINDS, field) && value ? { field, value } : null;
}

/** "pathname:/pricing", as the address and the read API have it. */
export function stepText({ field, value }) {
  return `${field}:${value}`;
}

/** What was typed as a step, or null: a path has its slash, and of a whole address the path is taken. */
export function typedStep(field, typed) {
  const text = typed.trim();
  if (!text) return null;
  if (field !== "pathname") return { field, value: text };
  if (/^https?:\/\//i.test(text) && URL.canParse?.(text)) return { field, value: new URL(text).pathname };
  return { field, value: text.startsWith("/") ? text : `/${text}` };
}

/** The steps with the one at `from` moved to `to`. */
export function moveStep(steps, from, to) {
  const rest = steps.filter((_, i) => i !== from);
  return [...rest.slice(0, to), steps[from], ...rest.slice(to)];
}

/** A name for each step that goes with it when it moves, also where the same step stands there twice. */
export function stepKeys(steps) {
  const texts = steps.map(stepText);
  return texts.map((text, i) => `${text}#${texts.slice(0, i).filter((other) => other === text).length}`);
}

/** Which step loses most of who came to it, where there are several to compare: its index, or -1. */
export function largestLoss(rows) {
  const told = rows.map((row, i) => [i, row.of_previous]).filter(([i, share]) => i && share !== null);
  if (told.length < 2 || rows[0].visits === 0) return -1;
  const [at, least] = told.reduce((one, other) => (other[1] < one[1] ? other : one));
  return least < 100 && told.some(([, share]) => share > least) ? at : -1;
}

/** "visits" or "visit" */
export function visitWords(count) {
  return `${number(count)} ${count === 1 ? "visit" : "visits"}`;
}
