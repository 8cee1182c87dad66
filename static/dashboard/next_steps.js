// The card of a new website that names what to do after the first event: a goal of an event that has arrived, excluding
// oneself, sharing. Dismissed for good in this browser. Loaded on the dashboards of new websites alone.

import { matchOf } from "../goals/conditions.js";
import { get, send } from "../shared/api.js";
import { notify, openWhenLoaded } from "../shared/dialog.js";
import { fill, h, icon, loadStylesheet } from "../shared/dom.js";
import { texts } from "../shared/messages.js";
import { readableHost } from "../shared/readable.js";

await loadStylesheet("/assets/dashboard/next_steps.css");
const t = await texts("next_steps");
const MOST_EVENTS = 3;

/**
 * Draws the card into `element`, which is hidden once it is dismissed. `goalAdded()` is called when a goal was added.
 *
 * @param {HTMLElement} element
 * @param {Board} board
 * @param {() => void} goalAdded
 */
export async function nextSteps(element, board, goalAdded) {
  const { website } = board;
  const key = `next_steps:${website.id}`;
  if (isDismissed(key)) return;
  const goal = h("div", { class: "next-step" });
  const dismiss = h("button", { class: "button small quiet", type: "button" }, t("dismiss"));
  dismiss.addEventListener("click", () => {
    remember(key);
    element.hidden = true;
    // The focus would be lost with the button.
    /** @type {HTMLElement | null} */ (document.querySelector("button.figure"))?.focus();
  });
  element.setAttribute("aria-label", t("title"));
  fill(
    element,
    h("div", { class: "card-head" }, h("h2", { class: "card-title" }, t("title")), dismiss),
    h(
      "ol",
      { class: "next-steps" },
      h("li", null, h("strong", null, t("goal")), goal),
      h("li", null, h("strong", null, t("exclude")), excludeStep(website)),
      h("li", null, h("strong", null, t("share")), shareStep(website)),
    ),
  );
  await drawGoal(goal, board, goalAdded);
  element.hidden = false;
}

/**
 * Draws a button for each of the events with the most visitors, which makes it a goal.
 *
 * @param {HTMLElement} place
 * @param {Board} board
 * @param {() => void} goalAdded
 */
async function drawGoal(place, board, goalAdded) {
  const { signal } = board;
  const path = `/api/account/websites/${board.website.id}/goals`;
  const [names, goals] = await Promise.all([
    get(`${board.base}/event-names?period=30d&limit=${MOST_EVENTS}`, { signal }),
    get(path, { signal }),
  ]);
  const matches = (/** @type {string} */ text) => matchOf({ type: "event", operator: "=", text, more: [] });
  const saved = goals.ok ? /** @type {SavedGoal[]} */ (goals.data) : [];
  const isCounted = (/** @type {string} */ name) => saved.some(({ match }) => match.join() === matches(name).join());
  const rows = names.ok ? /** @type {TopRow[]} */ (names.data) : [];
  const free = rows.map(({ value }) => value).filter((name) => name && !isCounted(name));
  const add = (/** @type {string} */ name) => async () => {
    const body = { name: name.slice(0, 100), type: "event", match: matches(name), value: null, currency: null };
    const answer = await send("POST", path, body);
    if (!answer.ok) return notify(answer.error.message);
    notify(t("goal_added", { event: name }));
    goalAdded();
    await drawGoal(place, board, goalAdded);
    return /** @type {HTMLElement | null} */ (place.querySelector("button, a"))?.focus();
  };
  const events = h("a", { href: `/websites/${board.website.id}/events` }, t("send_events"));
  const settings = h("a", { href: `/websites/${board.website.id}/settings/goals` }, t("settings"));
  fill(
    place,
    h("p", { class: "soft" }, free.length ? t("goal_means") : saved.length ? t("goal_more") : t("goal_none")),
    h(
      "p",
      { class: "row" },
      free.map((name) =>
        h("button", { class: "button small", type: "button", onclick: add(name) }, t("count_event", { event: name })),
      ),
      free.length ? null : saved.length ? settings : events,
    ),
  );
}

/**
 * @param {Website} website
 */
function excludeStep({ id, domain }) {
  const local = /^(localhost|127\.)/.test(domain);
  const href = `${local ? "http" : "https"}://${domain}/#tally-ignore`;
  const more = h("a", { href: `/websites/${id}/settings/exclusions` }, t("settings"));
  return h(
    "div",
    { class: "next-step" },
    h("p", { class: "soft" }, t.rich("exclude_means", { settings: more })),
    h(
      "p",
      { class: "row" },
      h(
        "a",
        { class: "button small", href, target: "_blank", rel: "noopener noreferrer" },
        t("exclude_browser", { domain: readableHost(domain) }),
        icon("open"),
      ),
    ),
  );
}

/**
 * @param {Website} website
 */
function shareStep(website) {
  const open = () => openWhenLoaded(import("./share_dialog.js"), ({ shareDialog }) => shareDialog(website));
  return h(
    "div",
    { class: "next-step" },
    h("p", { class: "soft" }, t("share_means")),
    h(
      "p",
      { class: "row" },
      h("button", { class: "button small", type: "button", onclick: open }, t("share_dashboard")),
    ),
  );
}

/**
 * @param {string} key
 */
function isDismissed(key) {
  try {
    return localStorage.getItem(key) === "dismissed";
  } catch {
    return false;
  }
}

/**
 * @param {string} key
 */
function remember(key) {
  try {
    localStorage.setItem(key, "dismissed");
  } catch {
    // Where the browser forbids it, the card is there again with the next page.
  }
}
