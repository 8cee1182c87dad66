"""Steps of visits, by which funnels and journeys are asked for.

A step is a pageview of a path or an event of a name. Its number is twice the label of the text, plus the position of
the field in STEP_FIELDS, so that a column of paths and one of names become one column of steps.
"""

from typing import TYPE_CHECKING, Any, TypeVar

from tally.engine.values import STEP_FIELDS
from tally.storage.sql.filters import Query

if TYPE_CHECKING:
    from numpy.typing import NDArray

Numbers = TypeVar("Numbers", int, "NDArray[Any]")
"""One, or an array of them."""


def label(text: str) -> Query:
    """The label of a text, if it is stored."""
    return "/* behaviour.label */ select id from label where text = ?", [text]


def step_code(field: str, label: Numbers) -> Numbers:
    """Return the number that stands for a step with a label in a field of STEP_FIELDS."""
    return 2 * label + STEP_FIELDS.index(field)


def label_of(code: Numbers) -> Numbers:
    """Return the label of a step's text."""
    return code >> 1
