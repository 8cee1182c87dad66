// Which values a text that is typed suggests. Pure.

/**
 * Returns the rows that contain a text, as they are shown or as they are stored; those that it names come first.
 *
 * @template {{ text: string, value: string }} T
 * @param {T[]} rows
 * @param {string} typed
 */
export function matching(rows, typed) {
  if (!typed) return rows;
  const part = typed.toLowerCase();
  const hits = rows.filter((row) => row.text.toLowerCase().includes(part) || row.value.toLowerCase().includes(part));
  return [...hits.filter((row) => isNamed(row, typed)), ...hits.filter((row) => !isNamed(row, typed))];
}

/**
 * Returns whether a text is the name of a value (Germany), or the value itself (DE).
 *
 * @param {{ text: string, value: string }} row
 * @param {string} typed
 */
export function isNamed(row, typed) {
  return row.value === typed || row.text.toLowerCase() === typed.toLowerCase();
}

/**
 * Returns the name that is most like a text: with the fewest changes of single letters, of those that begin with the same letter if there are some;
 * "" without names.
 *
 * @param {string} text
 * @param {string[]} names
 */
export function nearest(text, names) {
  const typed = text.toLowerCase();
  const alike = names.filter((name) => name.toLowerCase().startsWith(typed[0]));
  let [best, least] = ["", Infinity];
  for (const name of alike.length ? alike : names) {
    const changes = distance(typed, name.toLowerCase());
    if (changes < least) [best, least] = [name, changes];
  }
  return best;
}

/**
 * Returns how many letters have to be added, removed or replaced (Levenshtein).
 *
 * @param {string} one
 * @param {string} other
 */
function distance(one, other) {
  let row = Array.from({ length: other.length + 1 }, (_, place) => place);
  for (let i = 0; i < one.length; i++) {
    const next = [i + 1];
    for (let j = 0; j < other.length; j++) {
      next.push(Math.min(next[j] + 1, row[j + 1] + 1, row[j] + Number(one[i] !== other[j])));
    }
    row = next;
  }
  return row[other.length];
}

// Of words that follow each other, as many can name one value: "United Arab Emirates".
const MAX_PHRASE = 4;
const MAX_WORDS = 12;

/**
 * Returns what the words of a text mean, in their order: each word, or some that name one value together, with the values
 * of different fields that it can mean, the most likely first; none where it means nothing.
 *
 * @param {string} typed
 * @param {FieldValue[]} values
 * @returns {{ words: string, values: FieldValue[] }[]}
 */
export function understood(typed, values) {
  const words = typed.trim().toLowerCase().split(/\s+/).filter(Boolean).slice(0, MAX_WORDS);
  const parts = [];
  for (let i = 0; i < words.length;) {
    let size = Math.min(MAX_PHRASE, words.length - i);
    let found = meanings(words.slice(i, i + size).join(" "), values);
    while (!found.length && size > 1) found = meanings(words.slice(i, i + --size).join(" "), values);
    parts.push({ words: words.slice(i, i + size).join(" "), values: found });
    i += size;
  }
  return parts;
}

/**
 * Returns the values that a phrase in lower case names, begins, or begins a word of, in this order and by count; of each
 * field the first.
 *
 * @param {string} phrase
 * @param {FieldValue[]} values
 */
function meanings(phrase, values) {
  const beginsWord = (/** @type {string} */ text) =>
    text
      .split(phrase)
      .slice(0, -1)
      .some((before) => /[^\p{L}\p{N}]$/u.test(before));
  const rank = (/** @type {string} */ text) =>
    text === phrase ? 0 : text.startsWith(phrase) ? 1 : phrase.length > 2 && beginsWord(text) ? 2 : 3;
  const ranked = values
    .map((one) => ({ one, rank: Math.min(rank(one.text.toLowerCase()), rank(one.value.toLowerCase())) }))
    .filter((hit) => hit.rank < 3)
    .sort((a, b) => a.rank - b.rank || b.one.count - a.one.count);
  const fields = new Set();
  return ranked.filter(({ one }) => !fields.has(one.field) && fields.add(one.field)).map(({ one }) => one);
}
