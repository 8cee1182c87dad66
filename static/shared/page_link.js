// Links from rows of lists to what they name: a page of the website, or a website that visits came from.

import { h, icon } from "./dom.js";
import { texts } from "./messages.js";
import { readablePath } from "./readable.js";

const t = await texts("shared");
const PAGES = ["pathname", "entry_page", "exit_page"];
const HOST = /^[a-z0-9-]+(\.[a-z0-9-]+)+$/;

/**
 * Returns the address of what a value names; null where it names nothing on the web, such as an app or "(other)".
 *
 * @param {string} field
 * @param {string} value
 * @param {string} domain  of the website
 */
export function addressOf(field, value, domain) {
  if (PAGES.includes(field) && value.startsWith("/")) {
    const url = new URL(`https://${domain}`);
    // Keeps the host, whatever the path begins with.
    url.pathname = value;
    return url.href;
  }
  return field === "referrer" && HOST.test(value) ? `https://${value}/` : null;
}

/**
 * Returns the link of a value, or null.
 *
 * @param {string} field
 * @param {string} value
 * @param {string} domain
 */
export function pageLink(field, value, domain) {
  const href = addressOf(field, value, domain);
  if (!href) return null;
  // Of a path as it is read; of a host as it is, so that it can be told from one that looks like it.
  const label = t("open_in_new_tab", { page: field === "referrer" ? value : readablePath(value) });
  const props = { class: "page-link no-print", href, target: "_blank", rel: "noopener noreferrer" };
  return h(
    "a",
    { ...props, "aria-label": label, title: label, dataset: { key: `open ${field}=${value}` } },
    icon("open"),
  );
}
