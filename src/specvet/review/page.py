"""One object as one self-contained HTML page, for a colleague: the viewer of the review page, with the spectrum, what
the agent said and what people decided inside. It loads nothing and needs no server.

The page's script is the review page's own modules, each as a function that returns what it exports.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from markupsafe import Markup

from specvet import __version__
from specvet.records.files import write_atomic
from specvet.review.describing import described
from specvet.review.desk import Desk
from specvet.review.events import Event, now
from specvet.review.evidence import EvidenceReader, finite
from specvet.review.matched import Matched
from specvet.review.spectra import Spectra
from specvet.vetting.templates import page_template

_STYLES = ("vendor/uPlot-1.6.32.css", "page.css")

_ENTRY = "one.js"


def write_object_page(desk: Desk, item: str, task: str, out: Path) -> Path:
    """Write the page of one item, opened at `task`, to `out`; its folder must exist. Returns `out`.

    Args:
        desk: the listing, with what was decided.
        item: its name in the listing.
        task: key of the task that is shown first.
        out: replaced at once, when the page is complete.

    Raises:
        UnreadableError: the spectrum cannot be read.
        OSError: the page cannot be written.
    """
    listing = desk.listing
    place = listing.place[item]
    spectra = Spectra(listing)
    payload = spectra.payload(place).body
    spectrum = spectra.spectrum(place)
    reader, matched = EvidenceReader(listing, spectra), Matched(listing)
    try:
        tasks = [
            described(t)
            | {
                "evidence": finite(reader.of(place, t)),
                "votes": [_vote(v) for v in desk.votes(item, t.key).values()],
                "match": finite(matched.of(place, t.key, hidden=False)),
                "merged": {"conflict": desk.merged(item, t.key).standing == "conflict"},
            }
            for t in listing.tasks
        ]
    finally:
        reader.close()
    object_ = {"task": task, "tasks": tasks, "spectrum": base64.b64encode(payload).decode()}
    title = listing.ids[place] or spectrum.id or listing.files[place]
    provenance = _provenance(desk, place, spectrum.content_hash)
    write_atomic(out, render(title, object_, provenance).encode("utf-8", "replace"))
    return out


def render(title: str, object_: dict[str, Any], provenance: list[tuple[str, str]]) -> str:
    """The page as text."""
    css = "\n".join(_static(name) for name in _STYLES)
    script = bundle(_ENTRY)
    policy = f"default-src 'none'; style-src {_digest(css)}; script-src {_digest(script)}"
    # Nothing in a JSON text may end the element that holds it.
    inside = json.dumps(object_, ensure_ascii=False).replace("<", "\\u003c")
    section = re.search(r"<!-- spectrum -->\n(.*?) *<!-- /spectrum -->", _static("index.html"), re.DOTALL)
    assert section is not None
    return str(
        page_template("specvet.review", "one.html").render(
            title=title,
            policy=policy,
            css=Markup(css),
            spectrum_section=Markup(section[1].replace('<button id="open-more"', '<button id="open-more" hidden')),
            provenance=provenance,
            object=Markup(inside),
            script=Markup(script),
        )
    )


@cache
def bundle(entry: str) -> str:
    """The modules that `entry` needs, and itself, as one script. Raises ValueError for an import it does not know."""
    done: list[str] = []
    parts: list[str] = []

    def add(name: str) -> None:
        if name in done:
            return
        text = _static(name)
        # A library that exports one thing at its end may hold other exports in its comments.
        exported = [f"default: {n}" for n in re.findall(r"^export \{ (\w+) as default \};", text, re.MULTILINE)]
        exported = exported or re.findall(r"^export (?:async )?(?:const|function|class) (\w+)", text, re.MULTILINE)
        text = re.sub(r"^export \{ \w+ as default \};$", "", text, flags=re.MULTILINE)
        text = re.sub(r"^export ", "", text, flags=re.MULTILINE)

        def bound(found: re.Match[str]) -> str:
            target = (Path(name).parent / found["file"]).as_posix().removeprefix("./")
            add(target)
            names = found["names"]
            if names.startswith("* as "):
                names = names.removeprefix("* as ")
            elif not names.startswith("{"):
                names = f"{{ default: {names} }}"
            return f"const {names} = modules[{json.dumps(target)}];"

        text = re.sub(r'^import (?P<names>[^"]+?) from "\./(?P<file>[\w./-]+)";$', bound, text, flags=re.MULTILINE)
        if stray := re.search(r"^(import|export)\b.*$", text, re.MULTILINE):
            raise ValueError(f"{name}: cannot put into one script: {stray[0]}")
        done.append(name)
        parts.append(f"modules[{json.dumps(name)}] = (() => {{\n{text}\nreturn {{ {', '.join(exported)} }};\n}})();")

    add(entry)
    return '"use strict";\nconst modules = {};\n' + "\n".join(parts) + "\n"


@cache
def _static(name: str) -> str:
    return files("specvet.review").joinpath("static", *name.split("/")).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _vote(vote: Event) -> dict[str, Any]:
    fields = ("reviewer", "verdict", "quality", "likelier", "z", "issues", "comment", "flagged", "third", "at")
    return {name: getattr(vote, name) for name in fields}


def _provenance(desk: Desk, place: int, content_hash: str) -> list[tuple[str, str]]:
    listing = desk.listing
    found = [
        ("file", f"{listing.files[place]}, row {listing.rows[place]}"),
        ("hash of wavelength and flux", content_hash),
        ("from", f"{listing.kind} {listing.title}"),
        ("agent", f"{listing.agent.policy} {listing.agent.model}".strip() if listing.agent else ""),
        ("decisions kept in", desk.store.name),
        ("made by", f"specvet {__version__}, {now()}"),
    ]
    return [(label, value) for label, value in found if value]
