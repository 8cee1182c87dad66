// The imports of a website in its settings: the upload of a file, what would be imported, progress, the list with undo.

import { confirmDialog, failureNotice, notify } from "../shared/dialog.js";
import { fill, h, refill } from "../shared/dom.js";
import { get, send, sendBytes } from "../shared/api.js";
import { field, form } from "../shared/forms.js";
import { dayRange, number, wholePercent } from "../shared/formats.js";
import { texts } from "../shared/messages.js";
import { sectionCard } from "./card.js";
import { guessFormat } from "./import_format.js";

const t = await texts("account");
const shared = await texts("shared");
const POLL_MS = 1000;
const RETRIES = 5;
/** @type {Record<string, string>} */
const FORMATS = {
  tally: t("format_tally"),
  goatcounter: t("format_goatcounter"),
  plausible: t("format_plausible"),
  umami: t("format_umami"),
  matomo: t("format_matomo"),
  ga4: t("format_ga4"),
  "access-log": t("format_access_log"),
};
/** @type {Record<string, string>} */
const UPLOAD_STATES = {
  receiving: t("upload_receiving"),
  waiting: t("upload_waiting"),
  checking: t("upload_checking"),
  checked: t("upload_checked"),
  importing: t("upload_importing"),
  interrupted: t("upload_interrupted"),
  failed: t("upload_failed"),
};
/** @type {Record<string, string>} */
const IMPORT_STATES = {
  running: t("import_running"),
  interrupted: t("import_interrupted"),
  complete: t("import_complete"),
  following: t("import_following"),
  undoing: t("import_undoing"),
  undone: t("import_undone"),
};
/**
 * Returns the card; the imports are loaded into it.
 *
 * @param {Website} website
 */
export function importsCard(website) {
  const path = `/api/account/websites/${website.id}/imports`;
  /** @type {ImportsCard} */
  const card = {
    path,
    upload: h("div", { class: "stack" }),
    list: h("div"),
    status: h("p", { class: "visually-hidden", role: "status" }),
    shown: "",
    sending: false,
  };
  load(card);
  const element = sectionCard(
    t("imports"),
    h("p", { class: "soft" }, t("imports_lead")),
    h("div", { class: "stack" }, card.upload, card.status, card.list),
  );
  element.classList.add("imports-card");
  card.element = element;
  return element;
}

/**
 * Loads the imports, and again while something is under way and the card is on the page.
 *
 * @param {ImportsCard} card
 */
async function load(card) {
  clearTimeout(card.timer);
  const answer = await get(card.path);
  if (!answer.ok) {
    fill(
      card.list,
      failureNotice(t("imports_failed"), answer.error, () => load(card)),
    );
    return;
  }
  draw(card, answer.data);
  const busy = ["waiting", "checking", "importing"].includes(answer.data.upload?.state);
  const undoing = answer.data.imports.some((/** @type {any} */ one) => ["undoing", "running"].includes(one.state));
  if (!busy && !undoing) return;
  card.timer = setTimeout(() => {
    if (card.element?.isConnected) load(card);
  }, POLL_MS);
}

/**
 * @param {ImportsCard} card
 * @param {any} data
 */
function draw(card, data) {
  const { upload, imports } = data;
  const step = upload ? upload.state : "none";
  if (step !== card.shown) {
    // Screen readers read what the state is now, not each number.
    if (card.shown && upload) fill(card.status, stateOf(upload));
    card.shown = step;
    refill(card.upload, upload ? uploadParts(card, upload, data) : chooser(card, data));
  } else if (upload) showProgress(card, upload);
  const rows = imports.map((/** @type {any} */ one) => importRow(card, one));
  refill(card.list, imports.length ? h("ul", { class: "stack", "aria-label": t("imports") }, rows) : null);
}

/**
 * @param {ImportsCard} card
 * @param {any} data
 */
function chooser(card, { formats, max_bytes: most, piece_bytes: piece }) {
  const options = formats.map((/** @type {string} */ one) => h("option", { value: one }, productOf(one)));
  const select = h("select", null, h("option", { value: "" }, t("choose_format")), options);
  const guessed = h("span", { role: "status" });
  const format = field({
    ...{ label: t("import_format"), name: "format", input: select, hint: guessed },
    missing: t("choose_format_missing"),
  });
  // A format that was chosen by hand stays.
  let own = "";
  const input = h("input", { type: "file" });
  input.addEventListener("change", async () => {
    const [chosen] = input.files || [];
    const found = chosen ? await guessFormat(chosen) : "";
    if (input.files?.[0] !== chosen || !chosen) return;
    const isKnown = formats.includes(found);
    fill(guessed, isKnown ? t("format_guessed", { format: productOf(found) }) : t("format_not_guessed"));
    if (select.value !== own) return;
    own = isKnown ? found : "";
    select.value = own;
    format.settle();
  });
  const file = field({
    label: t("import_file"),
    name: "file",
    input,
    missing: t("choose_file"),
    hint: t("import_file_hint", { size: megabytes(most) }),
  });
  const made = form({
    fields: [file, format],
    action: t("upload_and_check"),
    busy: t("uploading"),
    submit: async (values) => {
      const chosen = input.files?.[0];
      if (!chosen) return null;
      const about = { name: chosen.name, format: values.format, size: chosen.size };
      const begun = await send("POST", `${card.path}/upload`, about);
      if (!begun.ok) return begun;
      await transfer(card, chosen, 0, piece);
      return null;
    },
  });
  return made.element;
}

/**
 * Sends the bytes of a file from one on, and again those of a piece whose connection broke.
 *
 * @param {ImportsCard} card
 * @param {File} file
 * @param {number} from
 * @param {number} piece
 */
async function transfer(card, file, from, piece) {
  card.sending = true;
  await load(card);
  let failures = 0;
  for (let sent = from; sent < file.size && card.element?.isConnected;) {
    const answer = await sendBytes("PATCH", `${card.path}/upload?offset=${sent}`, file.slice(sent, sent + piece));
    if (answer.ok) {
      sent = answer.data.upload.received;
      failures = 0;
      showProgress(card, answer.data.upload);
      continue;
    }
    failures += 1;
    if (answer.status >= 400 && answer.status < 500) failures = RETRIES;
    if (failures === RETRIES) {
      notify(answer.error.message);
      break;
    }
    await new Promise((resolve) => setTimeout(resolve, POLL_MS * failures));
    const now = await get(card.path);
    if (now.ok && now.data.upload) sent = now.data.upload.received;
  }
  card.sending = false;
  card.shown = "";
  await load(card);
}

/**
 * @param {ImportsCard} card
 * @param {any} upload
 * @param {any} data
 */
function uploadParts(card, upload, data) {
  const { state } = upload;
  card.bar = h("progress", { max: 1, value: 0, "aria-label": stateOf(upload) });
  card.figure = h("span", { class: "soft small-text" });
  const isBusy = ["waiting", "checking", "importing"].includes(state) || (state === "receiving" && card.sending);
  const parts = [
    h("p", { class: "wrap" }, h("strong", null, h("bdi", null, upload.name)), ` · ${productOf(upload.format)}`),
    h("p", null, stateOf(upload)),
    isBusy ? h("p", { class: "row" }, card.bar, card.figure) : null,
    upload.error && upload.error !== "interrupted" ? h("div", { class: "notice bad" }, upload.error) : null,
    state === "checked" ? previewOf(upload) : null,
    messagesOf(upload),
    state === "receiving" && !card.sending ? resume(card, upload, data.piece_bytes) : null,
    h("div", { class: "row" }, runButton(card, upload), removeButton(card, upload, isBusy)),
  ];
  showProgress(card, upload);
  return h("div", { class: "stack" }, parts);
}

/**
 * @param {ImportsCard} card
 * @param {any} upload
 */
function showProgress(card, upload) {
  const share = (upload.state === "receiving" ? upload.received : upload.position) / upload.size;
  if (card.bar) card.bar.value = Math.min(share, 1);
  if (card.figure) fill(card.figure, wholePercent(Math.min(share, 1) * 100));
}

/**
 * Returns the state of an upload in words.
 *
 * @param {any} upload
 */
function stateOf(upload) {
  return UPLOAD_STATES[upload.state];
}

/**
 * @param {any} upload
 */
function previewOf({ preview }) {
  const part = preview.complete ? null : t("preview_part", { lines: preview.lines });
  if (!preview.events && !preview.sums && !preview.crawls) {
    return h("p", { class: "notice" }, part ?? t("preview_nothing", { count: preview.lines }));
  }
  const range = dayRange(preview.first_day, preview.last_day);
  return h(
    "ul",
    null,
    preview.events ? h("li", null, t("preview_events", { count: preview.events - preview.known, range })) : null,
    preview.sums ? h("li", null, t("preview_sums", { count: preview.sums - preview.known_sums, range })) : null,
    preview.known_sums ? h("li", null, t("preview_known_sums", { count: preview.known_sums })) : null,
    preview.crawls ? h("li", null, t("preview_crawls", { count: preview.crawls })) : null,
    preview.known ? h("li", null, t("preview_known", { count: preview.known })) : null,
    preview.rejected ? h("li", null, t("preview_rejected", { count: preview.rejected, lines: preview.lines })) : null,
    part && h("li", null, part),
  );
}

/**
 * @param {any} upload
 */
function messagesOf({ messages }) {
  if (!messages.length) return null;
  const rows = messages.map((/** @type {string} */ one) => h("li", { class: "breakable" }, one));
  return h("details", null, h("summary", null, t("import_messages")), h("ul", { class: "mono small-text" }, rows));
}

/**
 * Returns a choice of the same file again, after the page was left during the upload.
 *
 * @param {ImportsCard} card
 * @param {any} upload
 * @param {number} piece
 */
function resume(card, upload, piece) {
  const input = h("input", { type: "file" });
  const file = field({
    label: t("same_file"),
    name: "file",
    input,
    missing: t("choose_file"),
    check: () => {
      const chosen = input.files?.[0];
      return chosen?.name === upload.name && chosen?.size === upload.size
        ? null
        : t("not_the_file", { name: upload.name });
    },
  });
  return form({
    fields: [file],
    action: t("continue_upload"),
    submit: async () => {
      const chosen = input.files?.[0];
      card.shown = "";
      if (chosen) await transfer(card, chosen, upload.received, piece);
      return null;
    },
  }).element;
}

/**
 * @param {ImportsCard} card
 * @param {any} upload
 */
function runButton(card, { state, preview }) {
  const hasLines = preview && (preview.events || preview.sums || preview.crawls || !preview.complete);
  if (state !== "interrupted" && !(state === "checked" && hasLines)) return null;
  const words = state === "checked" ? t("import") : t("continue_import");
  const run = () => act(card, send("POST", card.path));
  return h("button", { class: "button primary", type: "button", "data-key": "run", onclick: run }, words);
}

/**
 * @param {ImportsCard} card
 * @param {any} upload
 * @param {boolean} isBusy
 */
function removeButton(card, upload, isBusy) {
  const remove = () => {
    card.sending = false;
    return act(card, send("DELETE", `${card.path}/upload`));
  };
  const words = isBusy ? shared("cancel") : t("remove_upload");
  return h("button", { class: "button", type: "button", "data-key": "remove", onclick: remove }, words);
}

/**
 * Shows what a change led to.
 *
 * @param {ImportsCard} card
 * @param {Promise<any>} changed
 */
async function act(card, changed) {
  const answer = await changed;
  if (!answer.ok) notify(answer.error.message);
  await load(card);
}

/**
 * @param {ImportsCard} card
 * @param {any} one
 */
function importRow(card, one) {
  const counts = [
    one.events || !(one.sums || one.crawls) ? t("import_events", { count: one.events }) : null,
    one.crawls ? t("import_crawls", { count: one.crawls }) : null,
    one.sums ? t("import_sums", { count: one.sums }) : null,
    one.duplicates ? t("import_duplicates", { count: one.duplicates }) : null,
    one.rejected ? t("import_rejected", { count: one.rejected }) : null,
  ];
  const range = one.first_day ? dayRange(one.first_day, one.last_day) : null;
  const undo = async () => {
    const agreed = await confirmDialog({
      title: t("undo_question", { file: one.file }),
      words: [
        one.events || !(one.sums || one.crawls) ? t("undo_effect", { count: one.events }) : null,
        one.crawls ? t("undo_effect_crawls", { count: one.crawls }) : null,
        one.sums ? t("undo_effect_sums", { count: one.sums }) : null,
      ]
        .filter(Boolean)
        .join(" "),
      action: t("undo_import"),
      danger: true,
    });
    if (agreed) await act(card, send("POST", `${card.path}/${one.number}/undo`));
  };
  const isDone = ["complete", "interrupted"].includes(one.state);
  const label = t("undo_named", { file: one.file });
  return h(
    "li",
    { class: "row apart" },
    h(
      "div",
      { class: "grow wrap" },
      h("strong", { class: "breakable" }, h("bdi", null, one.file)),
      h(
        "p",
        { class: "soft small-text" },
        [productOf(one.format), IMPORT_STATES[one.state], range].filter(Boolean).join(" · "),
      ),
      h("p", { class: "soft small-text" }, counts.filter(Boolean).join(" · ")),
    ),
    isDone
      ? h(
          "button",
          {
            class: "button small",
            type: "button",
            "aria-label": label,
            "data-key": `undo-${one.number}`,
            onclick: undo,
          },
          t("undo"),
        )
      : null,
  );
}

/**
 * @param {string} format
 */
function productOf(format) {
  return FORMATS[format] || format;
}

/**
 * @param {number} bytes
 */
function megabytes(bytes) {
  return `${number(Math.round(bytes / 1e6))} MB`;
}
