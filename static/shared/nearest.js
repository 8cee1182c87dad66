// The name that is most like a text. Pure.

/**
 * Returns the name with the fewest changes of single letters, of those that begin with the same letter if there are some;
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
