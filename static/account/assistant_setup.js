// Commands and settings that give an assistant a new key, for the Model Context Protocol (docs/mcp.md).

import { copyButton } from "../shared/dialog.js";
import { h, icon } from "../shared/dom.js";
import { texts } from "../shared/messages.js";

const t = await texts("account");

/** Scopes with which figures may be read. */
const READING = ["reports", "read", "manage"];

/**
 * Returns what to enter in the usual assistants, folded; null for a key that reads no figures.
 *
 * @param {{ value: string, scopes: string[] }} key
 * @param {string} base  the server's public address
 */
export function assistantSetup({ value, scopes }, base) {
  if (!scopes.some((scope) => READING.includes(scope))) return null;
  const url = `${base}/mcp`;
  const headers = { Authorization: `Bearer ${value}` };
  const ways = [
    ["Claude Code", `claude mcp add --transport http tally ${url} --header "Authorization: Bearer ${value}"`],
    ["Cursor: ~/.cursor/mcp.json", JSON.stringify({ mcpServers: { tally: { url, headers } } }, null, 2)],
    ["VS Code: .vscode/mcp.json", JSON.stringify({ servers: { tally: { type: "http", url, headers } } }, null, 2)],
  ];
  return h(
    "details",
    { class: "aside" },
    h("summary", null, icon("right"), t("set_up_assistant")),
    h("p", null, t("assistant_reads")),
    ways.map(([name, words]) =>
      h(
        "div",
        { class: "stack" },
        h("strong", null, name),
        h("pre", { class: "code-block wrapped", tabindex: "0", "aria-label": name }, words),
        h("div", { class: "row" }, copyButton(words, t("copy_for", { name: name.split(":")[0] }))),
      ),
    ),
  );
}
