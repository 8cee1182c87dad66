"""The committed corpora: one file a target, one input a line, written as Python writes bytes.

So that a change of them can be read. Lines that begin with # are comments.
"""

import ast
import re
from pathlib import Path

FOLDER = Path(__file__).resolve().parent / "corpus"


def inputs(name: str) -> list[bytes]:
    """Every input of a target's corpus."""
    lines = (FOLDER / f"{name}.txt").read_text().splitlines()
    return [ast.literal_eval(line) for line in lines if line and not line.startswith("#")]


def add(name: str, fresh: list[bytes]) -> None:
    """Writes more inputs at the end."""
    with (FOLDER / f"{name}.txt").open("a") as file:
        file.writelines(f"{data!r}\n" for data in fresh)


def unpack(name: str, folder: Path) -> None:
    """The inputs as files, which is how a fuzzer wants them."""
    folder.mkdir(parents=True)
    for number, data in enumerate(inputs(name)):
        (folder / f"{number:04}").write_bytes(data)


def words(name: str) -> set[bytes]:
    """The words in a corpus: what a fuzzer puts in and would be long in guessing."""
    return {word for data in inputs(name) for word in re.findall(rb"[A-Za-z_-]{3,24}|[^\w\s]+|[0-9]{2,}", data)}
