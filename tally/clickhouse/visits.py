"""SQL of traffic: the events of a range with what is known of their visits, and the conditions of filters on them.

A visit is a visitor's events of a day without a gap of more than 30 minutes. `Traffic.source` is a subquery with a row
for each event. Settled days have what is known of the visits (tally/clickhouse/settle.py); of other days, and where
events have arrived after a day was settled, visits are cut from the sorted events of each visitor and day. All figures
are sums over days, since visitors and visits end at midnight.

A statement reads the ids up to the last one that was confirmed before the first statement of its report, so that all
statements of a report read the same events. Numbers are written into statements, texts are parameters.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from tally.clickhouse.client import Parameters
from tally.clickhouse.rows import stored_scalar
from tally.engine.archive import FIELD_NUMBERS
from tally.engine.values import Goal, Scope
from tally.events.channels import DIRECT
from tally.events.dimensions import ACQUISITION, PAGES, VISIT_FIELDS
from tally.events.filters import Filter, numbers_in, type_numbers
from tally.events.validation import PAGEVIEWS, TRAFFIC
from tally.events.visits import VISIT_GAP_MS
from tally.rollups.imported_sums import OF_DAY_MS
from tally.timestamps import DAY_MS

VISIT_COLUMNS = ("v_start", "v_ms", "v_views", "v_events", "v_number", "v_sends")
"""Of an event's visit: its start, duration, pageviews, other events, and its number among the visitor's of the day; and
whether the visit's source is that of this event."""
PROPERTIES = ("prop_keys", "prop_values")
NO_SOURCE = dict.fromkeys(ACQUISITION, "") | {"channel": DIRECT}
"""What an event has that was sent without a source."""
IS_VIEW = f"type in ({', '.join(map(str, sorted(PAGEVIEWS)))})"
_IS_TRAFFIC = f"type in ({', '.join(map(str, sorted(TRAFFIC)))})"
_NAMED = {"true": True, "false": False, "null": None}


def of_days(website: int, days: range) -> str:
    """Return the condition on rows of some days of a website."""
    return f"website = {website} and day >= {max(days.start, 0)} and day < {max(days.stop, 0)}"


def columns_of(filters: Iterable[Filter]) -> set[str]:
    """Return the columns that conditions of filters are on."""
    found: set[str] = set()
    for one in filters:
        found.update(PROPERTIES if one.property_name is not None else {one.field} - {"type"})
    return found


def condition(filters: Iterable[Filter], parameters: Parameters, *, of_measures: bool = False) -> str:
    """Return SQL that holds for the events that match all filters. of_measures: of a table
    where names, pages and properties are "" for all."""
    return " and ".join(["1", *(_condition(one, parameters, of_measures) for one in filters)])


def _condition(of: Filter, parameters: Parameters, of_measures: bool) -> str:
    if of.operator == "!=":
        return f"not {_condition(Filter(of.field, '=', of.values), parameters, of_measures)}"
    if of.field == "type":
        return f"has({type_numbers(of)}, type)"
    if of_measures and (of.property_name is not None or of.field in (*PAGES, "event_name")):
        return str(int(of.accepts("")))
    if of.property_name is not None:
        return _property_condition(of, of.property_name, parameters)
    return _text_condition(of, of.field, parameters)


def _text_condition(of: Filter, text: str, parameters: Parameters) -> str:
    values = parameters.texts(of.values)
    if of.operator == "=":
        return f"has({values}, {text})"
    function = {"*=": "position", "^=": "startsWith", "$=": "endsWith"}[of.operator]
    return f"arrayExists(x -> {function}({text}, x) > 0, {values})"


def _property_condition(of: Filter, name: str, parameters: Parameters) -> str:
    """Return the condition on a property, which is "" where an event lacks it."""
    value = property_value(name, parameters)
    if of.operator == "=":
        scalars = [*of.values, *numbers_in(of.values), *(_NAMED[text] for text in of.values if text in _NAMED)]
        matches = f"has({parameters.texts(map(stored_scalar, scalars))}, {value})"
    else:
        matches = f"(startsWith({value}, 's') and {_text_condition(of, f'substring({value}, 2)', parameters)})"
    return f"({matches} or {value} = '')" if of.accepts("") else matches


def property_value(name: str, parameters: Parameters) -> str:
    """Return SQL of the value of a property as `stored_scalar` writes it, "" where an event lacks it."""
    return f"prop_values[indexOf(prop_keys, {parameters.text(name)})]"


class TrafficDay(NamedTuple):
    """A day that has events: the newest version that is settled, 0 where none is, with its last id; whether `event` has
    later ones; and how many events a report cuts into visits itself."""

    day: int
    version: int
    last_id: int
    is_late: bool
    unsettled: int = 0


@dataclass(frozen=True, slots=True)
class Traffic:
    """The traffic of a website in a scope (in website time), up to the id of the last confirmed event.

    days: at least those of the range that have events. sum_days: those of the website that have imported sums and no
    events.
    """

    scope: Scope
    last_id: int
    days: Sequence[TrafficDay] = ()
    sum_days: Sequence[int] = ()

    @property
    def in_range(self) -> str:
        """SQL that holds for events in the range."""
        return f"(ts >= {self.scope.from_ms} and ts < {self.scope.to_ms})"

    @property
    def begins(self) -> str:
        """SQL that holds for events whose visit begins in the range."""
        return f"(v_start >= {self.scope.from_ms} and v_start < {self.scope.to_ms})"

    @property
    def days_in_range(self) -> list[TrafficDay]:
        """The days of the range that have events."""
        from_ms, to_ms = self.scope.from_ms, self.scope.to_ms
        return [one for one in self.days if from_ms < (one.day + 1) * DAY_MS and one.day * DAY_MS < to_ms]

    def matches(self, parameters: Parameters) -> str:
        """Return SQL that holds for the events of E: in the range, and matching all filters."""
        return f"{self.in_range} and {condition(self.scope.filters, parameters)}"

    def sums(self, field: str, columns: str) -> str:
        """Return ` union all select ...` of columns of the imported sums of a field that count, "" where none do.

        Sums count in whole days and without filters, at one time of their day.
        """
        scope = self.scope
        first_ms, end_ms = (0, 0) if scope.filters else scope.whole_days or (0, 0)
        begin_ms, end_ms = max(first_ms, scope.from_ms), min(end_ms, scope.to_ms)
        days = [day for day in self.sum_days if begin_ms <= day * DAY_MS + OF_DAY_MS < end_ms]
        place = f"website = {scope.website} and field = {FIELD_NUMBERS[field or 'total']} and has({days}, day)"
        return f" union all select {columns} from day_sum where {place}" if days else ""

    def place(self, table: str) -> str:
        """Return the condition on rows of a table: the website, the days of the range, and confirmed ids."""
        days = range(self.scope.from_ms // DAY_MS, -(-self.scope.to_ms // DAY_MS))
        return f"{table} where {of_days(self.scope.website, days)} and id <= {self.last_id}"

    def source(self, columns: Collection[str], goals: Sequence[Goal] = ()) -> str:
        """Return a subquery of all events of the days of the range: day, visitor, ts, id, type, and some columns.

        Those that the filters of the scope and of goals are on are among them.
        """
        wanted = {*columns, *columns_of(self.scope.filters)}
        for goal in goals:
            wanted.update(columns_of(goal.filters), () if goal.value is None else PROPERTIES)
        names = sorted(wanted - {"ts", "id", "type", "day", "visitor"})
        days = self.days_in_range
        late, whole = [one for one in days if one.is_late and one.version], [one for one in days if not one.is_late]
        not_settled, of_visits = [one.day for one in days if not one.version], {*VISIT_FIELDS, *VISIT_COLUMNS}
        parts = []
        if not_settled or not days:
            parts.append(f"{self.place('event')} and {_IS_TRAFFIC} and has({not_settled}, day)")
        if late:
            parts.append(f"{self._late(late, {*names} - of_visits)} where 1")
        cut = wanted.intersection(of_visits)
        found = [_cut(part, names) if cut else _selected(part, names) for part in parts]
        if whole:
            found.append(_selected(f"{self.place('settled')} and {_is_version(whole)}", names))
        return f"({' union all '.join(found)})"

    def visitors_with(self, condition: str, columns: Collection[str]) -> str:
        """Return a condition that holds for all events of visitors, and of some more, who have an event in the days of
        the range for which a condition on some columns holds."""
        unfiltered = replace(self, scope=self.scope._replace(filters=()))
        return f"visitor in (select visitor from {unfiltered.source(columns)} where {condition})"

    def _late(self, days: Sequence[TrafficDay], columns: Collection[str]) -> str:
        """Return the events of days of which some are settled and some have arrived later, with their own sources."""
        names = sorted({*columns, "pathname"} - {*ACQUISITION})
        last_ids = f"[{', '.join(f'toInt64({one.last_id})' for one in days)}]"
        numbers = [one.day for one in days]
        sources = [f"if(v_sends, toString({name}), '{unset}') as {name}" for name, unset in NO_SOURCE.items()]
        settled = f"{self.place('settled')} and {_is_version(days)}"
        arrived = (
            f"{self.place('event')} and {_IS_TRAFFIC} and has({numbers}, day)"
            f" and id > arrayElement({last_ids}, indexOf({numbers}, day))"
        )
        return f"({_selected(arrived, [*names, *ACQUISITION])} union all {_selected(settled, [*names, *sources])})"


def _is_version(days: Sequence[TrafficDay]) -> str:
    return f"(day, version) in ({', '.join(f'({one.day}, {one.version})' for one in days)})"


def _selected(place: str, names: Sequence[str]) -> str:
    return f"select day, visitor, ts, id, type{''.join(f', {name}' for name in names)} from {place}"


def _cut(place: str, names: Sequence[str]) -> str:
    """Return the events of some days with the columns of their visits."""
    of_event = [name for name in names if name not in (*VISIT_FIELDS, *VISIT_COLUMNS)]
    acquired = [name for name in names if name in ACQUISITION]
    sent = " or ".join(f"{name} != '{unset}'" for name, unset in NO_SOURCE.items())
    source = f"toUInt8({sent}), ({', '.join([*(f'toString({name})' for name in acquired), '0'])})"
    # Of an event: 1 ts, 2 id, 3 type, 4 whether it is a pageview, 5 pathname, 6 whether it has a source, 7 that.
    event = f"ts, id, type, toUInt8({IS_VIEW}), toString(pathname), {source}"
    event += "".join(f", {name}" for name in of_event)
    pages = {"entry_page": "arrayFirst(x -> x.4, v).5", "exit_page": "arrayLast(x -> x.4, v).5"}
    visit = [f"{pages[name]} as {name}" for name in names if name in pages]
    for n, name in enumerate(acquired, 1):
        visit.append(f"if(v_sent.6, tupleElement(v_sent.7, {n}), '{NO_SOURCE[name]}') as {name}")
    more = "".join(f", {one}" for one in visit)
    shown = [*(f"e.{8 + n} as {name}" for n, name in enumerate(of_event)), "v_sent.6 and v_sent.2 = e.2 as v_sends"]
    places = {one.rpartition(" ")[2]: one for one in shown}
    columns = "".join(f", {places.get(name, name)}" for name in names)
    return (
        f"select day, visitor, e.1 as ts, e.2 as id, e.3 as type{columns}"
        " from (select day, visitor, v, v_number, v[1].1 as v_start, v[-1].1 - v_start as v_ms,"
        " arrayCount(x -> x.4, v) as v_views, length(v) - v_views as v_events, arrayFirst(x -> x.6, v) as v_sent"
        f"{more} from (select day, visitor, vs.1 as v_number, vs.2 as v from (select day, visitor,"
        f" arraySplit((x, d) -> d > {VISIT_GAP_MS}, es, arrayDifference(arrayMap(x -> x.1, es))) as parts,"
        " arrayJoin(arrayZip(arrayEnumerate(parts), parts)) as vs"
        f" from (select day, visitor, arraySort(x -> (x.1, x.2), groupArray(({event}))) as es from {place}"
        " group by day, visitor)))) array join v as e"
    )
