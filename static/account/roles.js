// The roles of people, with their names and what each may do.

import { texts } from "../shared/messages.js";

const t = await texts("account");

/** @type {Record<string, string>} */
export const ROLES = {
  viewer: t("role_viewer"),
  editor: t("role_editor"),
  admin: t("role_admin"),
  owner: t("role_owner"),
};
/** @type {Record<string, string>} */
export const ROLE_MAY = {
  viewer: t("role_viewer_may"),
  editor: t("role_editor_may"),
  admin: t("role_admin_may"),
  owner: t("role_owner_may"),
};
