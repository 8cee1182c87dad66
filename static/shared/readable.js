// Paths and hosts as people read them. They are stored as browsers send them, in ASCII: /%D8%B3%D9%84%D8%A7%D9%85 is shown
// as /سلام, xn--bcher-kva.example as bücher.example. Pure, except apart, which creates elements.
//
// What is shown and typed again is the same page or host: the server encodes it back. What a reader could mistake stays
// encoded. docs/dashboard.md has the rules.

import { h } from "./dom.js";

const ESCAPES = /%(?:[CD].%..|E.%..%..|F.%..%..%..|2[023]|3[CEF]|5E|60|7[BD])/gi;
// Controls, invisible and unassigned characters, white space; what looks like / \ or %; marks, spaces and joiners, which
// depend on the characters beside them.
const DOUBTFUL =
  /[\p{C}\p{Z}\p{Default_Ignorable_Code_Point}\p{M}\u2800\u2044\u2215\u2571\u27cb\u29f5\u29f8\ufe68\ufe6a\uff05\uff0f\uff3c]/gu;
const JOINED =
  /[\p{Script=Arabic}\p{Script=Bengali}\p{Script=Devanagari}\p{Script=Gujarati}\p{Script=Gurmukhi}\p{Script=Kannada}\p{Script=Malayalam}\p{Script=Oriya}\p{Script=Sinhala}\p{Script=Tamil}\p{Script=Telugu}]/u;
const EMOJI = /\p{Extended_Pictographic}/u;
const JOINERS = "\u200c\u200d";
const [ZERO_WIDTH_JOINER, EMOJI_STYLE] = ["\u200d", "\ufe0f"];

const RIGHT_TO_LEFT = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\u{10800}-\u{10fff}\u{1e800}-\u{1efff}]/u;

/**
 * Returns the nodes of a readable path or host: from left to right, each part in its own direction. Otherwise adjacent
 * parts in Arabic or Hebrew would change places. `isolated` returns the node of a part or of all parts, whose direction is
 * "auto" or "ltr".
 *
 * @param {string} text
 * @param {(direction: string, children: Child[]) => Child} [isolated]
 * @returns {Child}
 */
export function apart(text, isolated = (dir, children) => h("bdi", { dir }, children)) {
  if (!RIGHT_TO_LEFT.test(text)) return text;
  const parts = text.split(text.includes("/") ? /(\/)/ : /(\.)/);
  const nodes = parts.map((part) => (RIGHT_TO_LEFT.test(part) ? isolated("auto", [part]) : part));
  return isolated("ltr", nodes);
}

/**
 * Returns a stored path, or a part of one, for reading.
 *
 * @param {string} path
 */
export function readablePath(path) {
  if (/^[!-$&-~]*$/.test(path)) return path;
  const decoded = path.replace(ESCAPES, (escape) => {
    try {
      return decodeURIComponent(escape);
    } catch {
      return escape;
    }
  });
  return decoded.replace(DOUBTFUL, (one, /** @type {number} */ at) => {
    const [before] = decoded.slice(Math.max(0, at - 2), at).match(/.$/su) || [""];
    const [after] = decoded.slice(at + one.length, at + one.length + 2).match(/^./su) || [""];
    return isClear(one, before, after) ? one : encodeURIComponent(one);
  });
}

/**
 * Returns whether a doubtful character is visible, or changes how its neighbours are written, at this place.
 *
 * @param {string} one
 * @param {string} before
 * @param {string} after
 */
function isClear(one, before, after) {
  if (one === " ") return !["", " ", "/"].includes(before) && !["", " ", "/"].includes(after);
  if (one === EMOJI_STYLE) return EMOJI.test(before);
  if (JOINERS.includes(one)) {
    const isEmoji = one === ZERO_WIDTH_JOINER && (EMOJI.test(before) || before === EMOJI_STYLE) && EMOJI.test(after);
    return isEmoji || (JOINED.test(before) && JOINED.test(after));
  }
  return /\p{M}/u.test(one) && !/\p{Default_Ignorable_Code_Point}/u.test(one) && /[\p{L}\p{M}\p{N}]/u.test(before);
}

// A label is of one script, or of those that Japanese, Chinese and Korean write together; digits and hyphens go with all.
// Of Latin, the letters of European languages that are not mistaken for others.
const LATIN = "a-zß-öø-ÿāăąćĉċčďđēĕėęěĝğġģĥħĩīĭįĵķĺļľłńņňōŏőœŕŗřśŝşšţťũūŭůűųŵŷźżžșțơư";
const HAN = "\\p{Script=Han}";
const JAPANESE = `${HAN}\\p{Script=Hiragana}\\p{Script=Katakana}ー`;
const ALONE =
  "Arabic Armenian Bengali Cyrillic Devanagari Ethiopic Georgian Greek Gujarati Gurmukhi Hebrew Kannada Khmer Lao Malayalam Myanmar Oriya Sinhala Tamil Telugu Thai Tibetan".split(
    " ",
  );
const SCRIPTS = [
  LATIN,
  `a-z${JAPANESE}`,
  `a-z${HAN}\\p{Script=Bopomofo}`,
  `a-z${HAN}\\p{Script=Hangul}`,
  ...ALONE.map((script) => `\\p{Script=${script}}`),
].map((letters) => new RegExp(`^[${letters}0-9-]+$`, "u"));
// Letters and digits that look like Latin ones: a label of these alone could be another one.
const LOOK_ALIKES = /^[асԁеһіјӏоԛрѕԝхуьҽпгѵѡοαικνρτυωηχγσեոսօցհյզգიოყჿוןסחهဝင၀๐໐०০੦૦௦౦೦൦0-9-]+$/u;
// Strokes that look like a slash, a dash or a letter beside Latin ones.
const STROKES = /[a-z0-9-][ノソゾンニエロヘへー一丨丶丿]|[ノソゾンニエロヘへー一丨丶丿][a-z0-9-]/u;

/**
 * Returns a stored host, or a part of one, for reading: unchanged where one of its labels could be mistaken.
 *
 * @param {string} host
 */
export function readableHost(host) {
  if (!host.includes("xn--")) return host;
  const labels = host.split(".").map((label) => (label.startsWith("xn--") ? uLabel(label.slice(4)) : label));
  const text = labels.join(".");
  const isSafe = labels.every((label) => label !== null && (isAscii(label) || isDistinct(label)));
  return isSafe && isSameHost(text, host) ? text : host;
}

/** @param {string} label */
function isDistinct(label) {
  return SCRIPTS.some((script) => script.test(label)) && !LOOK_ALIKES.test(label) && !STROKES.test(label);
}

/**
 * Returns whether browsers read a text as this host: then it is a valid internationalised name in its one form.
 *
 * @param {string} text
 * @param {string} host
 */
function isSameHost(text, host) {
  const whole = (/** @type {string} */ one) => one.replace(/^\*?\.|\.$/g, "");
  try {
    return new URL(`https://${whole(text)}`).hostname === whole(host);
  } catch {
    return false;
  }
}

/** @param {string} text */
function isAscii(text) {
  return /^[!-~]*$/.test(text);
}

/**
 * Returns the text of a Punycode string (RFC 3492, 6.2); null where it is none.
 *
 * @param {string} encoded
 */
export function uLabel(encoded) {
  const basic = encoded.lastIndexOf("-");
  const points = [...encoded.slice(0, Math.max(0, basic))].map((one) => one.charCodeAt(0));
  let [n, bias, i] = [128, 72, 0];
  for (let at = basic + 1; at < encoded.length; i += 1) {
    const before = i;
    for (let weight = 1, k = 36; ; k += 36) {
      const digit = "abcdefghijklmnopqrstuvwxyz0123456789".indexOf(encoded[at++]?.toLowerCase() ?? "?");
      if (digit < 0) return null;
      i += digit * weight;
      const threshold = Math.min(26, Math.max(1, k - bias));
      if (digit < threshold) break;
      weight *= 36 - threshold;
    }
    const count = points.length + 1;
    bias = adapted(i - before, count, before === 0);
    n += Math.floor(i / count);
    i %= count;
    if (n > 0x10ffff) return null;
    points.splice(i, 0, n);
  }
  return String.fromCodePoint(...points);
}

/**
 * Returns the bias for the next number (RFC 3492, 6.1).
 *
 * @param {number} delta
 * @param {number} count
 * @param {boolean} isFirst
 */
function adapted(delta, count, isFirst) {
  let left = Math.floor(delta / (isFirst ? 700 : 2));
  left += Math.floor(left / count);
  let k = 0;
  for (; left > 455; k += 36) left = Math.floor(left / 35);
  return k + Math.floor((36 * left) / (left + 38));
}
