// Why a notice could not be sent, in the language of the page.

import { texts } from "../shared/messages.js";

const t = await texts("account");

/** By `last_error_code`. @type {Record<string, string>} */
const REASONS = {
  mail_not_configured: t("send_error_mail_not_configured"),
  mail_host_not_found: t("send_error_mail_host_not_found"),
  mail_refused: t("send_error_mail_refused"),
  mail_unreachable: t("send_error_mail_unreachable"),
  mail_timeout: t("send_error_mail_timeout"),
  mail_no_tls: t("send_error_mail_no_tls"),
  mail_certificate: t("send_error_mail_certificate"),
  mail_no_starttls: t("send_error_mail_no_starttls"),
  mail_sign_in: t("send_error_mail_sign_in"),
  mail_closed: t("send_error_mail_closed"),
  mail_failed: t("send_error_mail_failed"),
  no_answer: t("send_error_no_answer"),
  certificate: t("send_error_certificate"),
  host_not_found: t("send_error_host_not_found"),
  connection_failed: t("send_error_connection_failed"),
  no_http: t("send_error_no_http"),
};

/**
 * Returns the words of an error: those of its code, with what the server answered, or the error as it is.
 *
 * @param {string} error
 * @param {string | null} code
 */
export function sendError(error, code) {
  const words = code && REASONS[code];
  if (!words) return error;
  const answer = error.includes(": SMTP ") ? error.slice(error.indexOf(": SMTP ") + 2) : "";
  return answer ? `${words} ${answer}` : words;
}
