// Paths below the base path: Tally is served at the root of its host or below a path such as /stats, which a meta element
// of the HTML names.
//
// Paths in these pages are written as at the root ("/login", "/api/account"). at() completes a path for the browser or
// the server; dom.js and api.js call it for elements and requests. Pure.

export const BASE =
  /** @type {HTMLMetaElement | null} */ (document.querySelector('meta[name="base-path"]'))?.content || "";

/**
 * Returns a path as the browser requests it: "/stats/login" for "/login". Other URLs are returned unchanged.
 *
 * @param {string} url
 */
export function at(url) {
  return BASE && url.startsWith("/") && !url.startsWith("//") ? BASE + url : url;
}

/**
 * Returns a path of the address bar without the base path; null where it is not below the base path.
 *
 * @param {string} pathname
 */
export function local(pathname) {
  if (pathname === BASE) return "/";
  return pathname.startsWith(`${BASE}/`) ? pathname.slice(BASE.length) : null;
}

/** Returns the path of the current page. */
export function here() {
  return local(location.pathname) ?? location.pathname;
}

/**
 * Returns the server's public address: `base` (--base-url), else the address of this page.
 *
 * @param {string} base
 */
export function publicUrl(base) {
  return base || location.origin + BASE;
}
