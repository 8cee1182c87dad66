// The website's own page in a frame under the clicks: its address, and notes about it. Points are stored by path only: the
// host is the one with the most pageviews of the path, if it belongs to the website. The server's policy lists which
// addresses the browser may frame (tally/web/pages.py).

import { h } from "../shared/dom.js";
import { texts } from "../shared/messages.js";
import { readablePath } from "../shared/readable.js";

const t = await texts("heatmaps");
const MAX_ADDRESSES = 8;
// Origins of this computer on http, where developers run a website on any port.
const LOCAL = /^http:\/\/(localhost|127(?:\.\d{1,3}){3})(?::\d{1,5})?$/;

/**
 * Returns the origins where a page may be, the most likely first. `hosts`: the hosts of its pageviews, by count. Origins on
 * http are included where this page is on http: browsers do not show http frames in https pages. `chosen` is one of them
 * where only its port differs from an address of this computer: the ports of pages are not stored.
 *
 * @param {Website} website
 * @param {string[]} hosts
 * @param {string} [chosen]
 */
export function addressesOf(website, hosts, chosen = "") {
  const origins = website.origins.filter((origin) => /^https?:/.test(origin));
  const own = hosts.filter((host) => host === website.domain || host.endsWith(`.${website.domain}`));
  const listed = (/** @type {string} */ host) => origins.filter((origin) => new URL(origin).hostname === host);
  const plain = location.protocol === "http:" ? ["https", "http"] : ["https"];
  const seen = hosts.flatMap((host) => [
    ...listed(host),
    ...(own.includes(host) ? plain.map((scheme) => `${scheme}://${host}`) : []),
  ]);
  const all = [...seen, ...plain.map((scheme) => `${scheme}://${website.domain}`), ...origins];
  const shown = [...new Set(all)].filter(canBeShown).slice(0, MAX_ADDRESSES);
  const isOther = LOCAL.test(chosen) && shown.includes(chosen.replace(/:\d+$/, "")) && !shown.includes(chosen);
  return isOther ? [chosen, ...shown] : shown;
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
    { class: "quiet", "aria-label": t("page_address"), value: origin, dataset: { key: "address" } },
    addresses.map((one) => h("option", { value: one }, one)),
  );
  select.addEventListener("change", () => choose(select.value));
  const port = LOCAL.test(origin) ? portField(origin, choose) : null;
  const settings = h("a", { href: `/websites/${website.id}/settings/tracking` }, t("website_settings"));
  const policy = `frame-ancestors 'self' ${location.origin}`;
  return h(
    "div",
    { class: "framing small-text" },
    url
      ? h(
          "p",
          null,
          t.rich("browser_loads", {
            page:
              addresses.length > 1
                ? h("span", null, select, h("code", null, readablePath(new URL(url).pathname)))
                : h("code", null, url),
          }),
        )
      : h("p", null, t("no_address")),
    port,
    h(
      "details",
      null,
      h("summary", null, t("blank_question")),
      h(
        "ul",
        null,
        h(
          "li",
          null,
          t.rich("blank", {
            header: h("code", null, `Content-Security-Policy: ${policy}`),
            background: h("button", { class: "link-button", type: "button", onclick: back }, t("plain_background")),
          }),
        ),
        h(
          "li",
          null,
          addresses.length > 1 ? t.rich("different_choose", { settings }) : t.rich("different", { settings }),
        ),
        h("li", null, t("misplaced")),
      ),
    ),
  );
}

/**
 * Returns the field for the port of an origin of this computer.
 *
 * @param {string} origin
 * @param {(origin: string) => void} choose
 */
function portField(origin, choose) {
  const url = new URL(origin);
  const input = h("input", {
    ...{ type: "number", min: "1", max: "65535", value: url.port || "80", dataset: { key: "port" } },
    onchange: () => {
      if (!input.checkValidity() || !input.value) return;
      url.port = input.value;
      choose(url.origin);
    },
  });
  return h("p", null, h("label", { class: "row" }, t("port_of_host", { host: url.hostname }), input));
}
