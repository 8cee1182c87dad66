// Which system a file to import comes from, by its first kilobytes: the columns of a table, the keys of JSON, the lines of
// a log, or the names in a zip archive. What is read is the user's file in the browser; nothing is sent.

const HEAD_BYTES = 65_536;
// The list of files of a zip archive is at its end.
const TAIL_BYTES = 262_144;
// Keys of JSON objects in logs of Caddy, Traefik, nginx and Apache.
const LOG_KEYS =
  /"(request|request_method|RequestMethod|remote_addr|ClientAddr|ClientHost|http_user_agent|status)"\s*:/;
const TYPES = /"type"\s*:\s*"(pageview|screen_view|event|app_event|vitals|ab_assign|ab_convert|heatmap)"/;
// Tables by columns that they have in any order, in lower case.
/** @type {[format: string, columns: string[]][]} */
const TABLES = [
  ["umami", ["event_id", "session_id", "created_at", "url_path"]],
  ["plausible", ["timestamp", "name", "user_id", "pathname"]],
];
// A column of GA4's reports, of which a header has one.
const GA4_COLUMN = /^(active users|total users|new users|event count|sessions|views|nth day)$/;

/**
 * Returns the format of a file, as `formats` of the API names it; "" where it is not known.
 *
 * @param {Blob} file
 */
export async function guessFormat(file) {
  const head = new Uint8Array(await file.slice(0, HEAD_BYTES).arrayBuffer());
  if (head[0] === 0x1f && head[1] === 0x8b) return ofText(await unpacked(head, "gzip"));
  if (!(head[0] === 0x50 && head[1] === 0x4b)) return ofText(decoded(head));
  const tail = new Uint8Array(await file.slice(-TAIL_BYTES).arrayBuffer());
  return ofArchive(namesOf(tail)) || ofText(await firstFile(head));
}

/**
 * Returns the format of a text that begins as the file does.
 *
 * @param {string} text
 */
export function ofText(text) {
  const start = text.replace(/^\uFEFF/, "").trimStart();
  if (/^[[{]/.test(start)) return ofJson(start);
  if (/^#(Software|Version|Fields|Date):/i.test(start)) return "access-log";
  const [header = ""] = start.split(/\r?\n/).filter((line) => line && !line.startsWith("#"));
  if (/^"?\dPath"?,/.test(header)) return "goatcounter";
  if (/ \[\d{2}\/\w{3}\/\d{4}:|"(GET|POST|HEAD|PUT|OPTIONS) \S+ HTTP\//.test(header)) return "access-log";
  const columns = header.split(/[,\t;]/).map((name) => name.trim().replace(/^"|"$/g, "").toLowerCase());
  const table = TABLES.find(([, needed]) => needed.every((name) => columns.includes(name)));
  if (table) return table[0];
  return start.startsWith("#") || columns.some((name) => GA4_COLUMN.test(name)) ? "ga4" : "";
}

/**
 * @param {string} start
 */
function ofJson(start) {
  if (/"(actionDetails|idVisit)"\s*:/.test(start)) return "matomo";
  if (/"event_timestamp"\s*:/.test(start) && /"(event_params|event_name)"\s*:/.test(start)) return "ga4";
  if (TYPES.test(start) && /"timestamp"\s*:/.test(start)) return "tally";
  return LOG_KEYS.test(start) ? "access-log" : "";
}

/**
 * Returns the format of a zip archive of several files by their names; "" for others.
 *
 * @param {string[]} names
 */
export function ofArchive(names) {
  const files = names.map((name) => name.slice(name.lastIndexOf("/") + 1));
  if (files.includes("info.json")) return "goatcounter";
  return files.some((name) => /^(imported_)?[a-z_]+_\d{8}_\d{8}\.csv$/.test(name)) ? "plausible" : "";
}

/**
 * Returns the names in the list of a zip archive's files.
 *
 * @param {Uint8Array} tail
 */
function namesOf(tail) {
  const view = new DataView(tail.buffer);
  const names = [];
  for (let at = 0; at + 46 < tail.length; at++) {
    if (view.getUint32(at) !== 0x504b0102) continue;
    const length = view.getUint16(at + 28, true);
    names.push(decoded(tail.subarray(at + 46, at + 46 + length)));
    at += 45 + length;
  }
  return names;
}

/**
 * Returns the beginning of the first file of a zip archive.
 *
 * @param {Uint8Array} head
 */
function firstFile(head) {
  const view = new DataView(head.buffer);
  if (head.length < 30) return "";
  const content = head.subarray(30 + view.getUint16(26, true) + view.getUint16(28, true));
  return view.getUint16(8, true) ? unpacked(content, "deflate-raw") : decoded(content);
}

/**
 * Returns the text of the beginning of packed bytes.
 *
 * @param {Uint8Array} bytes
 * @param {CompressionFormat} kind
 */
async function unpacked(bytes, kind) {
  const parts = [];
  let size = 0;
  try {
    const reader = new Blob([/** @type {any} */ (bytes)])
      .stream()
      .pipeThrough(new DecompressionStream(kind))
      .getReader();
    for (let part = await reader.read(); !part.done && size < HEAD_BYTES; part = await reader.read()) {
      parts.push(part.value);
      size += part.value.length;
    }
    void reader.cancel();
  } catch {
    // The beginning of a file ends in the middle of what is packed.
  }
  return decoded(new Uint8Array(await new Blob(/** @type {any} */ (parts)).arrayBuffer()));
}

function decoded(/** @type {Uint8Array} */ bytes) {
  return new TextDecoder().decode(bytes);
}
