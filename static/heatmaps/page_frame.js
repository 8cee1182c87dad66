// The website's own page in a frame under the clicks: its address, and notes about it. Points are stored by path only: the
// host is the one with the most pageviews of the path, if it belongs to the website. The server's policy lists which
// addresses the browser may frame (tally/web/pages.py).

import { h } from "../shared/dom.js";

const MAX_ADDRESSES = 8;

/**
 * Returns the origins where a page may be, the most likely first. `hosts`: the hosts of its pageviews, by count. Origins on
 * http are included where this page is on http: browsers do not show http frames in https pages.
 *
 * @param {Website} website
 * @param {string[]} hosts
 */
export function addressesOf(website, hosts) {
  const origins = website.origins.filter((origin) => /^https?:/.test(origin));
  const own = hosts.filter((host) => host === website.domain || host.endsWith(`.${website.domain}`));
  const listed = (/** @type {string} */ host) => origins.filter((origin) => new URL(origin).hostname === host);
  const plain = location.protocol === "http:" ? ["https", "http"] : ["https"];
  const seen = hosts.flatMap((host) => [
    ...listed(host),
    ...(own.includes(host) ? plain.map((scheme) => `${scheme}://${host}`) : []),
  ]);
  const all = [...seen, ...plain.map((scheme) => `${scheme}://${website.domain}`), ...origins];
  return [...new Set(all)].filter(canBeShown).slice(0, MAX_ADDRESSES);
}

/**
 * @param {string} origin
 */
function canBeShown(origin) {
  return location.protocol === "http:" || /^(https:|http:\/\/(localhost|127\.0\.0\.1)(:|$))/.test(origin);
}

/**
 * Returns the URL of a page on an origin; null where `path` is not a path.
 *
 * @param {string} origin
 * @param {string} path
 */
export function pageAt(origin, path) {
  if (!path.startsWith("/")) return null;
  try {
    const url = new URL(origin + path);
    return url.origin === origin ? url.href : null;
  } catch {
    return null;
  }
}

/**
 * Returns the note about the framed page; `choose(origin)` changes the address, `back()` shows the plain background.
 *
 * @param {{ website: Website, addresses: string[], origin: string, url: string | null, choose: (origin: string) => void, back: () => void }} options
 */
export function framingNote({ website, addresses, origin, url, choose, back }) {
  const select = h(
    "select",
    { class: "quiet", "aria-label": "Address of the page", value: origin, dataset: { key: "address" } },
    addresses.map((one) => h("option", { value: one }, one)),
  );
  select.addEventListener("change", () => choose(select.value));
  const policy = `frame-ancestors 'self' ${location.origin}`;
  return h(
    "div",
    { class: "framing small-text" },
    url
      ? h(
          "p",
          null,
          "Your browser loads ",
          addresses.length > 1 ? select : null,
          h("code", null, addresses.length > 1 ? new URL(url).pathname : url),
          " here without scripts: this is not counted as a visit, and content that scripts create is missing.",
        )
      : h("p", null, "This path has no address that can be opened."),
    h(
      "details",
      null,
      h("summary", null, "Is the page blank or different?"),
      h(
        "ul",
        null,
        h(
          "li",
          null,
          "Blank, or “refused to connect”: the website forbids framing, which this page cannot detect. Let the website send ",
          h("code", null, `Content-Security-Policy: ${policy}`),
          " and no X-Frame-Options, or use the ",
          h("button", { class: "link-button", type: "button", onclick: back }, "plain background"),
          ".",
        ),
        h(
          "li",
          null,
          addresses.length > 1 ? "A different page: choose another address above, or add" : "A different page: add",
          " its exact origin in the ",
          h("a", { href: `/websites/${website.id}#settings` }, "website settings"),
          ".",
        ),
        h(
          "li",
          null,
          "Clicks next to their targets: the page has changed since, its fonts or content from scripts are missing here, or a part of it is as tall as the window, which is very tall here.",
        ),
      ),
    ),
  );
}
