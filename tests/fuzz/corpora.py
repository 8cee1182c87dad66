"""Reads and writes the committed corpora: a file per target, an input per line, as a bytes literal of Python.

The literals make changes readable in a review. Lines that begin with # are comments.
"""

import ast
import re
from pathlib import Path

FOLDER = Path(__file__).resolve().parent / "corpus"


def inputs(name: str) -> list[bytes]:
    """Return every input of a target's corpus."""
    lines = (FOLDER / f"{name}.txt").read_text().splitlines()
    return [ast.literal_eval(line) for line in lines if line and not line.startswith("#")]


def add(name: str, fresh: list[bytes]) -> None:
    """Append inputs to a corpus."""
    with (FOLDER / f"{name}.txt").open("a") as file:
        file.writelines(f"{data!r}\n" for data in fresh)


def unpack(name: str, folder: Path) -> None:
    """Write the inputs as files into a new directory, as the fuzzer needs them."""
    folder.mkdir(parents=True)
    for number, data in enumerate(inputs(name)):
        (folder / f"{number:04}").write_bytes(data)


def words(name: str) -> set[bytes]:
    """Return the words in a corpus, which the fuzzer inserts into inputs."""
    return {word for data in inputs(name) for word in re.findall(rb"[A-Za-z_-]{3,24}|[^\w\s]+|[0-9]{2,}", data)}
