// The menu Export: the CSV files of a page of a website, for the range and the filters that it shows. Loaded at its first use.

import { openDialog } from "./dialog.js";
import { h } from "./dom.js";
import { texts } from "./messages.js";

const t = await texts("exports");

/**
 * Opens the menu. It stays open: several files may be wanted.
 *
 * @param {CsvFile[]} files
 */
export function exportDialog(files) {
  const link = (/** @type {CsvFile} */ [words, href, download]) =>
    h("li", null, h("a", { class: "csv", href, download }, words));
  openDialog({
    title: t("export_csv"),
    body: files.length
      ? h("ul", { class: "files" }, files.map(link))
      : h("p", { class: "soft" }, t("nothing_to_export")),
  });
}
