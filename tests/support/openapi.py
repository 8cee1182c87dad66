"""static/openapi.yaml as a document, read once by the parser of libyaml: that of Python takes a second."""

from typing import Any

import yaml

from tests.support.app import ROOT


def read(text: str | bytes) -> dict[str, Any]:
    """Return a description as a document."""
    document: dict[str, Any] = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    return document


DOCUMENT = read((ROOT / "static" / "openapi.yaml").read_bytes())
