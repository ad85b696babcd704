"""What a page that people read is made of: a template, style sheets, a script, from a package's folder `templates`."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any


@cache
def page_template(package: str, name: str) -> Any:
    """A Jinja template. Everything is escaped: ids, labels, file names and what a model said come from strangers."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader(package, "templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    return environment.get_template(name)


@cache
def page_part(package: str, name: str) -> str:
    """A style sheet or script, as it is."""
    return files(package).joinpath("templates", name).read_text(encoding="utf-8").strip()
