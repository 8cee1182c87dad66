// Where the website's own page is, to be shown under the clicks, and what to know of that. Points are kept by path
// alone: the host is the one that most views of the page were on, if it is the website's. Which addresses the browser
// may frame is said by the server (tally/web/pages.py).

import { h } from "../shared/dom.js";

const MAX_ADDRESSES = 8;

/**
 * The addresses where a page may be, the likeliest first. `hosts`: those its views were on, by how many. Beside https
 * there is http where this page came by it; a page that came by https could not show that.
 */
export function addressesOf(website, hosts) {
  const origins = website.origins.filter((origin) => /^https?:/.test(origin));
  const own = hosts.filter((host) => host === website.domain || host.endsWith(`.${website.domain}`));
  const listed = (host) => origins.filter((origin) => new URL(origin).hostname === host);
  const plain = location.protocol === "http:" ? ["https", "http"] : ["https"];
  const seen = hosts.flatMap((host) => [
    ...listed(host),
    ...(own.includes(host) ? plain.map((scheme) => `${scheme}://${host}`) : []),
  ]);
  const all = [...seen, ...plain.map((scheme) => `${scheme}://${website.domain}`), ...origins];
  return [...new Set(all)].filter(canBeShown).slice(0, MAX_ADDRESSES);
}

function canBeShown(origin) {
  return location.protocol === "http:" || /^(https:|http:\/\/(localhost|127\.0\.0\.1)(:|$))/.test(origin);
}

/** The address of a page there; null where its path is none. */
export function pageAt(origin, path) {
  if (!path.startsWith("/")) return null;
  try {
    const url = new URL(origin + path);
    return url.origin === origin ? url.href : null;
  } catch {
    return null;
  }
}

/** What is to be known of the page in the frame; `choose(origin)` takes another address, `back()` the plain sheet. */
export function framingNote({ website, addresses, origin, url, choose, back }) {
  const select = h(
    "select",
    { class: "quiet", "aria-label": "Address of the page", value: origin, dataset: { key: "address" } },
    addresses.map((one) => h("option", { value: one }, one)),
  );
  select.addEventListener("change", () => choose(select.value));
  const told = `frame-ancestors 'self' ${location.origin}`;
  return h(
    "div",
    { class: "framing small-text" },
    url
      ? h(
          "p",
          null,
          "Your browser opens ",
          addresses.length > 1 ? select : null,
          h("code", null, addresses.length > 1 ? new URL(url).pathname : url),
          " here without scripts, so this is not counted as a visit; what the page does by script is missing.",
        )
      : h("p", null, "This path has no address that could be opened."),
    h(
      "details",
      null,
      h("summary", null, "It stays blank, or looks different?"),
      h(
        "ul",
        null,
        h(
          "li",
          null,
          "Blank, or “refused to connect”: the website forbids to be framed, which no page can find out. Let it answer with ",
          h("code", null, `Content-Security-Policy: ${told}`),
          " and without X-Frame-Options, or take the ",
          h("button", { class: "link-button", type: "button", onclick: back }, "plain sheet"),
          ".",
        ),
        h(
          "li",
          null,
          addresses.length > 1 ? "Another page: choose another address above, or list" : "Another page: list",
          " its exact origin in the ",
          h("a", { href: `/websites/${website.id}#settings` }, "website's settings"),
          ".",
        ),
        h(
          "li",
          null,
          "Clicks beside what was clicked: the page has changed since, its own fonts or what scripts add are missing here, or a part of it is as high as the window, which is very high here.",
        ),
      ),
    ),
  );
}
