// The sections of a website's settings, one page each, in the order of their index.

import { texts } from "../shared/messages.js";
import { isAdmin } from "../shared/roles.js";

const t = await texts("account");
const shared = await texts("shared");
const deletions = await texts("deletions");

/**
 * By the last part of the address: the title, and what is set there, by which the search finds it.
 *
 * @type {Record<string, [title: string, holds: string]>}
 */
export const SETTINGS = {
  "": [t("general"), [shared("name"), t("domain"), t("time_zone"), t("weeks_begin"), t("currency")].join(", ")],
  tracking: [t("tracking"), [t("snippet"), t("allowed_origins")].join(", ")],
  goals: [shared("goals"), ""],
  alerts: [t("alerts"), ""],
  sharing: [t("sharing"), t("share_links")],
  exclusions: [t("exclusions"), ""],
  data: [t("data"), [t("imports"), deletions("rewrite_title"), deletions("title")].join(", ")],
  danger: [t("danger"), t("delete_website")],
};

const FOR_EDITORS = ["goals", "alerts", "sharing"];

/**
 * Returns the sections that a role may change, in their order.
 *
 * @param {Role} role
 */
export function sectionsFor(role) {
  return Object.keys(SETTINGS).filter((one) => isAdmin({ role }) || (role === "editor" && FOR_EDITORS.includes(one)));
}

/**
 * Returns the path of a section of a website's settings.
 *
 * @param {{ id: string }} website
 * @param {string} section
 */
export function settingsPath({ id }, section) {
  return `/websites/${id}/settings${section && `/${section}`}`;
}
