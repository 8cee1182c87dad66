// The form of a share link: its name and all its options, with one button that saves them.

import { h } from "../shared/dom.js";
import { checkbox, field, form, linesField, passwordField } from "../shared/forms.js";
import { texts } from "../shared/messages.js";
import { strength } from "../shared/password_strength.js";
import { filtersField } from "../shared/filters_field.js";

const t = await texts("sharing");
const shared = await texts("shared");

/**
 * Returns the form of a link, or of a new one; `save(body)` resolves to the answer where it failed, else to null.
 *
 * @param {{ website: Website, link: ShareLink | null, save: (body: any) => Promise<any>, cancel: () => void }} options
 */
export function linkForm({ website, link, save, cancel }) {
  const name = field({
    ...{ label: shared("name"), name: "name", value: link?.name || "", maxlength: 100, autocomplete: "off" },
    ...{ autocapitalize: "sentences", missing: shared("enter_name"), hint: t("name_hint") },
  });
  const filters = filtersField({
    ...{ website, name: "filters", filters: link?.filters || [] },
    ...{ label: t("fixed_filters"), hint: t("fixed_filters_hint") },
  });
  const events = checkbox({ label: t("show_events"), name: "show_events", hint: t("show_events_hint") });
  events.input.checked = link ? !link.hide_events : false;
  const password = passwordField({
    ...{ name: "password", autocomplete: "new-password", soft: shared("optional") },
    ...{
      label: link?.has_password ? t("new_password") : t("link_password"),
      hint: link?.has_password ? t("new_password_hint") : t("password_hint"),
    },
    check: (/** @type {string} */ text) => (text ? strength(text, "").fault : null),
  });
  const open = link?.has_password ? checkbox({ label: t("remove_password"), name: "remove_password" }) : null;
  const origins = linesField({
    ...{ label: t("frame_origins"), name: "origins", lines: link?.origins || [], soft: shared("optional") },
    hint: t("frame_origins_hint", { example: "https://www.example.com" }),
  });
  const badges = checkbox({ label: t("show_badges"), name: "badges", hint: t("badges_hint") });
  badges.input.checked = link?.badges || false;
  return form({
    fields: [name, filters, events, password, ...(open ? [open] : []), origins, badges],
    action: link ? t("save_link") : t("create_link"),
    busy: shared("saving"),
    beside: h("button", { class: "button", type: "button", onclick: cancel }, shared("cancel")),
    submit: ({ show_events, remove_password, password: typed, ...values }) =>
      save({
        ...{ ...values, name: values.name.trim(), hide_events: !show_events },
        ...(typed ? { password: typed } : remove_password ? { password: null } : {}),
      }),
  });
}
