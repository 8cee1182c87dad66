// Which values a text that is typed suggests. Pure.

/**
 * Returns the rows that contain a text, as they are shown or as they are stored; those that it names come first.
 *
 * @param {BarRow[]} rows
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
 * @param {BarRow} row
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
