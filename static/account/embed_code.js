// The HTML of a share link to copy: the dashboard in a frame, and images with a figure.

import { copyButton } from "../shared/dialog.js";
import { h } from "../shared/dom.js";
import { texts } from "../shared/messages.js";

const t = await texts("sharing");

/**
 * Returns what the options of a link allow, folded; null for nothing.
 *
 * @param {Website} website
 * @param {ShareLink} link
 * @param {string} address
 */
export function embedCode(website, link, address) {
  if (!link.origins.length && !link.badges) return null;
  return h(
    "details",
    { class: "embed-code" },
    h("summary", { class: "small-text" }, t("embed")),
    link.origins.length ? snippet(t("frame"), frameHtml(website, address)) : null,
    link.badges ? badges(address) : null,
  );
}

/**
 * @param {string} title
 * @param {string} html
 * @param {Node | null} [image]
 */
function snippet(title, html, image = null) {
  return h(
    "div",
    { class: "stack" },
    h("h3", null, title),
    image ? h("div", null, image) : null,
    h("pre", { class: "code-block", tabindex: "0", "aria-label": `HTML: ${title}` }, html),
    h("div", { class: "row" }, copyButton(html, t("copy_html", { title }))),
  );
}

/**
 * Returns the address of an image of the link: `.../api/share/{token}/badge.svg`
 *
 * @param {string} link
 * @param {string} name
 */
function imageUrl(link, name) {
  return `${link.replace(/\/share\/([^/]+)$/, "/api/share/$1")}/${name}.svg`;
}

/**
 * @param {string} text
 */
function escaped(text) {
  return text.replace(/&/g, "&amp;").replace(/"/g, "&quot;").replace(/</g, "&lt;");
}

/**
 * @param {Website} website
 * @param {string} link
 */
function frameHtml(website, link) {
  const title = escaped(t("statistics_of", { website: website.name || website.domain }));
  return `<iframe src="${link}" title="${title}" width="100%" height="900" style="border: 0" loading="lazy"></iframe>`;
}

/**
 * @param {string} link
 */
function badges(link) {
  return [
    [t("badge"), "badge", t("badge_means")],
    [t("counter"), "counter", t("counter_means")],
  ].map(([title, name, alt]) => {
    const url = imageUrl(link, name);
    return snippet(title, `<img src="${url}" alt="${alt}">`, h("img", { src: url, alt }));
  });
}
