// The texts of the pages: every key that a module uses exists, every text is used, and the languages agree.
import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

import { LANGUAGES, languageOf, localesOf } from "../../../static/shared/language.js";
import { texts } from "../../../static/shared/messages.js";
import { cases } from "./cases.js";

const STATIC = new URL("../../../static/", import.meta.url).pathname;

/** The files of static/messages/ by language. */
const files = Object.fromEntries(
  Object.keys(LANGUAGES).map((code) => [
    code,
    JSON.parse(readFileSync(join(STATIC, "messages", `${code}.json`), "utf-8")),
  ]),
);

/** Every text as [path "part.key", message]. */
function entriesOf(file) {
  return Object.entries(file).flatMap(([part, messages]) =>
    Object.entries(messages).map(([key, message]) => [`${part}.${key}`, message]),
  );
}

/** Returns the forms of a message by plural category; a text without forms as "other". */
function formsOf(message) {
  return typeof message === "string" ? { other: message } : message;
}

function parametersOf(text) {
  return [...new Set([...text.matchAll(/\{(\w+)\}/g)].map((match) => match[1]))].sort();
}

/** Returns the keys that the modules use, as "part.key". */
function usedKeys() {
  const used = new Set();
  const modules = readdirSync(STATIC, { recursive: true }).filter(
    (path) => path.endsWith(".js") && !path.startsWith("vendor"),
  );
  for (const path of modules) {
    const source = readFileSync(join(STATIC, path), "utf-8").replace(/^\s*(\/\/|\/?\*).*$/gm, "");
    for (const [, name, part] of source.matchAll(/const (\w+) = await texts\(\s*"(\w+)"\s*\)/g)) {
      for (const [call, key] of source.matchAll(new RegExp(`(?<![\\w.])${name}(?:\\.rich)?\\(\\s*("\\w+")?`, "g"))) {
        // A key that is computed would be invisible to this test.
        assert.ok(key, `${path}: write the key of ${call} as a literal`);
        used.add(`${part}.${JSON.parse(key)}`);
      }
    }
  }
  return used;
}

test("every key that is used has a text, and every text is used", () => {
  const [used, had] = [usedKeys(), new Set(entriesOf(files.en).map(([path]) => path))];
  assert.deepEqual(
    [...used].filter((path) => !had.has(path)),
    [],
    "missing texts",
  );
  assert.deepEqual(
    [...had].filter((path) => !used.has(path)),
    [],
    "unused texts",
  );
});

for (const [code, file] of Object.entries(files)) {
  test(`${code}: the same texts as English, with the same parameters and all plural forms`, () => {
    const [english, own] = [new Map(entriesOf(files.en)), new Map(entriesOf(file))];
    assert.deepEqual([...own.keys()].sort(), [...english.keys()].sort());
    const rules = new Intl.PluralRules(code);
    const categories = rules.resolvedOptions().pluralCategories;
    // French and Spanish have another form for whole millions, for which the rest of a sentence is the same.
    const needed = new Set(Array.from({ length: 1_001 }, (_, count) => rules.select(count)));
    for (const [path, message] of own) {
      const forms = formsOf(message);
      const expected = parametersOf(Object.values(formsOf(english.get(path))).join(" "));
      assert.deepEqual(parametersOf(Object.values(forms).join(" ")), expected, path);
      if (typeof message !== "string") {
        assert.deepEqual(
          [...needed].filter((category) => !forms[category]),
          [],
          `${path}: missing plural forms`,
        );
        const unknown = Object.keys(forms).filter((category) => !categories.includes(category));
        assert.deepEqual(unknown, [], `${path}: ${code} has the plural categories ${categories}`);
      }
      for (const text of Object.values(forms)) assert.equal(text, text.trim(), `${path}: no white space around a text`);
    }
  });
}

test("a text with parameters, plural forms and nodes", async () => {
  globalThis.fetch = async () =>
    Response.json({ plain: "Pages", named: "{goal} of {goal}", days: { one: "{count} day", other: "{count} days" } });
  const t = await texts("only_here");
  assert.equal(t("plain"), "Pages");
  assert.equal(t("named", { goal: "Sign-up" }), "Sign-up of Sign-up");
  assert.equal(t("days", { count: 1 }), "1 day");
  assert.equal(t("days", { count: 12_000 }), "12,000 days");
  assert.deepEqual(t.rich("named", { goal: "x" }), ["", "x", " of ", "x", ""]);
  assert.throws(() => t("nothing"), /no text nothing/);
});

cases("languageOf", languageOf, [
  [["", ["de-AT", "en"]], "de"],
  [["fr", ["de"]], "fr"],
  [["", ["ja", "es-MX"]], "es"],
  [["", ["ja"]], "en"],
  [["xx", []], "en"],
  [["toString", []], "en"],
]);
cases("localesOf", localesOf, [
  [["en", "", ["en-GB", "de"]], ["en-GB"]],
  [["en", "", ["ja"]], ["ja"]],
  [["fr", "fr", ["de"]], ["fr"]],
  [["en", "", []], []],
]);
