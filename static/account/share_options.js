// The options of a share link in the settings of a website: password, fixed filters, single events, frames and badges,
// with the HTML to copy.

import { copyButton } from "../shared/dialog.js";
import { h } from "../shared/dom.js";
import { send } from "../shared/api.js";
import { checkbox, form, linesField, passwordField } from "../shared/forms.js";
import { texts } from "../shared/messages.js";

const t = await texts("account");
const shared = await texts("shared");

/**
 * @callback Saved
 * @param {ShareOptions} options
 * @param {string} message
 */

/**
 * Returns the options of a website's link, folded; `saved` is called with the new ones.
 *
 * @param {Website} website
 * @param {string} link
 * @param {Saved} saved
 */
export function shareOptions(website, link, saved) {
  const options = website.share_options;
  if (!options) return null;
  const change = async (/** @type {any} */ body, /** @type {string} */ message) => {
    const answer = await send("PATCH", `/api/account/websites/${website.id}/share`, body);
    if (!answer.ok) return answer;
    saved(answer.data.share_options, message);
    return null;
  };
  return h(
    "div",
    { class: "stack" },
    h("h3", null, t("options")),
    optionsForm(options, change),
    h("h3", null, t("password")),
    passwordForm(options, change),
    options.origins.length ? snippet(t("frame"), frameHtml(website, link)) : null,
    options.badges ? badges(link) : null,
  );
}

/**
 * @param {ShareOptions} options
 * @param {(body: any, message: string) => Promise<any>} change
 */
function optionsForm(options, change) {
  const filters = linesField({
    ...{ label: t("fixed_filters"), name: "filters", lines: options.filters, separator: "\n" },
    hint: t("fixed_filters_hint", { first: "filter_country=DE", second: "filter_pathname^=/blog" }),
  });
  const origins = linesField({
    ...{ label: t("frame_origins"), name: "origins", lines: options.origins },
    hint: t("frame_origins_hint", { example: "https://www.example.com" }),
  });
  const hidden = checkbox({ label: t("hide_events"), name: "hide_events" });
  const badge = checkbox({ label: t("show_badges"), name: "badges" });
  hidden.input.checked = options.hide_events;
  badge.input.checked = options.badges;
  return form({
    fields: [filters, origins, hidden, badge],
    action: t("save_options"),
    busy: shared("saving"),
    submit: (values) => change(values, t("options_saved")),
  }).element;
}

/**
 * @param {ShareOptions} options
 * @param {(body: any, message: string) => Promise<any>} change
 */
function passwordForm(options, change) {
  const password = passwordField({
    label: options.has_password ? t("new_link_password") : t("link_password"),
    name: "password",
    autocomplete: "new-password",
    missing: t("enter_password"),
  });
  const off = h("button", { class: "button", type: "button" }, t("remove_password"));
  off.addEventListener("click", async () => {
    const answer = await change({ password: null }, t("password_removed"));
    if (answer) made.fail(answer.error);
  });
  const made = form({
    fields: [password],
    action: options.has_password ? t("change_password") : t("set_password"),
    busy: shared("saving"),
    beside: options.has_password ? off : null,
    submit: (values) => change(values, t("password_set")),
  });
  const words = options.has_password ? t("viewers_enter_password") : t("no_password");
  return [h("p", { class: "soft" }, words), made.element];
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
