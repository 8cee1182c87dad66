// Visitors by weekday and hour of the local day, added up from the series by hour. Pure.

const HOUR_MS = 3_600_000;

/**
 * Returns the cells of a week, [weekday (0 is Sunday)][hour]: `sum`, the figure `count` added up over the days of the
 * range, and `days`, how many of them have this hour. Hours that are not over at `now` are not counted. Clocks that are set
 * back make an hour that a day has twice: both are added, and the day counts once.
 *
 * @param {Bucket[]} rows  by hour, in order
 * @param {string} count
 * @param {number} now
 */
export function weekHours(rows, count, now) {
  const cells = Array.from({ length: 7 }, () => Array.from({ length: 24 }, () => ({ sum: 0, days: 0, last: "" })));
  for (const row of rows) {
    if (Date.parse(row.time) + HOUR_MS > now) break;
    const [day, clock] = row.time.split("T");
    const cell = cells[new Date(`${day}T12:00:00Z`).getUTCDay()][Number(clock.slice(0, 2))];
    cell.sum += row[count];
    if (cell.last !== day) cell.days += 1;
    cell.last = day;
  }
  return cells.map((hours) => hours.map(({ sum, days }) => ({ sum, days, mean: days ? sum / days : null })));
}
