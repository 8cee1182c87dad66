// What the pages show to which role. The server decides what a role may do (docs/people.md).
//
// Elements of the class `for-editors` or `for-admins` are hidden below that role (app.css), by the role in the account of
// the page's website, or on pages without one in the account that is chosen.

/**
 * Returns whether the person may change websites, API keys and people.
 *
 * @param {{ role: Role }} account
 */
export function isAdmin({ role }) {
  return role === "owner" || role === "admin";
}

/**
 * Returns the role in the account of a website; without one that in the chosen account.
 *
 * @param {Account} account
 * @param {Website | undefined} website
 */
export function roleFor(account, website) {
  return account.accounts.find(({ id }) => id === website?.account)?.role || account.role;
}

/**
 * Hides what the role may not do.
 *
 * @param {Role} role
 */
export function showFor(role) {
  document.documentElement.dataset.role = role;
}

/** Returns whether the page is shown to a viewer, who changes nothing. */
export function isViewer() {
  return document.documentElement.dataset.role === "viewer";
}
