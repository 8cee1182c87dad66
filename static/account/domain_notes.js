// What the server changed of a domain that was typed, in the language of the page.

import { texts } from "../shared/messages.js";

const t = await texts("account");

/** @type {Record<string, (values: Record<string, string>) => string>} */
const NOTES = {
  www_dropped: (values) => t("note_www_dropped", values),
  host_alone: (values) => t("note_host_alone", values),
  port_dropped: (values) => t("note_port_dropped", values),
  kept_as_sent: (values) => t("note_kept_as_sent", values),
};

/**
 * Returns the notes of an answer as one text.
 *
 * @param {{ meta?: any }} answer
 */
export function domainNotes({ meta }) {
  /** @type {{ code: string, message: string, values: Record<string, string> }[]} */
  const notes = meta?.notes || [];
  return notes.map(({ code, message, values }) => NOTES[code]?.(values) ?? message).join(" ");
}
