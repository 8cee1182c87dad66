"""Parametrized cases in one test: all cases run, and each failure is reported with the name of its case."""

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest


def cases(
    arguments: str | Sequence[str],
    values: Iterable[Any],
    ids: Callable[[Any], object] | Iterable[object] | None = None,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Run a test once for each row of a table, as one test: for functions whose cases share nothing that changes.

    Takes what `pytest.mark.parametrize` takes, rows of `pytest.param` among them, and stacks like it. Fixtures are the
    same ones for all rows. A failing row is reported as a failed subtest with its name and traceback.
    """
    names = [name.strip() for name in arguments.split(",")] if isinstance(arguments, str) else list(arguments)
    rows = _rows(names, values, ids)

    def decorate(test: Callable[..., Any]) -> Callable[..., Any]:
        inner, earlier = getattr(test, "cases_of", (test, [("", {})]))
        table = [("-".join(filter(None, (own, name))), given | row) for name, row in rows for own, given in earlier]
        assert table, "a table without rows tests nothing"
        parameters = inspect.signature(inner).parameters
        taken = {name for _, row in table for name in row}
        fixtures = [parameter for name, parameter in parameters.items() if name not in taken]

        if inspect.iscoroutinefunction(inner):

            async def run(subtests: pytest.Subtests, **own: Any) -> None:
                for name, row in table:
                    try:
                        await inner(**own, **row)
                    except (Exception, pytest.fail.Exception):
                        with subtests.test(msg=name):
                            raise
        else:

            def run(subtests: pytest.Subtests, **own: Any) -> None:
                for name, row in table:
                    try:
                        inner(**own, **row)
                    except (Exception, pytest.fail.Exception):
                        with subtests.test(msg=name):
                            raise

        functools.update_wrapper(run, inner)
        del run.__wrapped__  # type: ignore[attr-defined]
        subtests = inspect.Parameter("subtests", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        run.__signature__ = inspect.Signature([subtests, *fixtures])  # type: ignore[attr-defined]
        run.cases_of = (inner, table)  # type: ignore[attr-defined]
        return run

    return decorate


def _rows(names: list[str], values: Iterable[Any], ids: Any) -> list[tuple[str, dict[str, Any]]]:
    """Return each row's name and its arguments."""
    rows = []
    given = list(ids) if ids is not None and not callable(ids) else None
    for number, value in enumerate(values):
        assert not getattr(value, "marks", ()), "a row of a table has no marks of its own"
        own_id = value.id if hasattr(value, "marks") else None
        row = tuple(value.values) if hasattr(value, "marks") else (value,) if len(names) == 1 else tuple(value)
        if own_id is None:
            shown = ids if callable(ids) else lambda part: part
            own_id = given[number] if given else "-".join(str(shown(part)) for part in row)
        rows.append((str(own_id), dict(zip(names, row, strict=True))))
    return rows
