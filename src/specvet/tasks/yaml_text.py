"""Reads YAML as people write it: safe, strict about repeated keys, and YES and NO stay words.

YAML 1.1 takes `yes`, `no`, `on` and `off` for true and false. In a task file they are answers and field names, so only
`true` and `false` are booleans here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import yaml
from yaml.composer import Composer
from yaml.constructor import SafeConstructor
from yaml.resolver import Resolver

from specvet.tasks.errors import TaskError

MAX_BYTES = 256 * 1024
"""A task file is a few kB; what is larger is something else."""

Path = tuple[str | int, ...]
"""Where a value stands: `("windows", 1, "range")`."""


@dataclass(frozen=True)
class YamlText:
    """A YAML mapping and where its values stand."""

    data: dict[Any, Any]
    node: yaml.MappingNode

    def line(self, path: Path) -> int:
        """Line (from 1) of the value at `path`, or of the nearest one above it that exists."""
        node: yaml.Node = self.node
        line = 1
        for part in path:
            found = _child(node, part)
            if found is None:
                break
            line, node = found
        return line


class _Strict(Composer):
    """Refuses repeated keys, and aliases, which can grow a small file into a huge one.

    What it refuses itself is a plain `MarkedYAMLError`, no subclass of it, and worded for people.
    """

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        parser: Any = self  # whichever it is
        if parser.check_event(yaml.AliasEvent):
            mark = parser.peek_event().start_mark
            raise yaml.MarkedYAMLError(problem="`*name` aliases are not read here; repeat the text", problem_mark=mark)
        return super().compose_node(parent, index)

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        node = super().compose_mapping_node(anchor)
        seen: dict[str, int] = {}
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue
            if key.value in seen:
                first = seen[key.value]
                raise yaml.MarkedYAMLError(
                    problem=f"the key `{key.value}` stands twice in one place, first in line {first}; keep one of them",
                    problem_mark=key.start_mark,
                )
            seen[key.value] = key.start_mark.line + 1
        return node


class StrictLoader(_Strict, yaml.SafeLoader):
    """SafeLoader that refuses repeated keys and aliases."""


class _Loader(StrictLoader):
    """Without yes/no booleans."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith((":bool", ":timestamp", ":merge"))]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"^(?:true|false)$"), list("tf"))


def _quick_loader() -> type[Any] | None:
    """The same over libyaml's parser, some six times faster: the built-in tasks are read by every command. None where
    PyYAML was built without it."""
    try:
        from yaml._yaml import CParser
    except ImportError:
        return None

    class Quick(_Strict, CParser, SafeConstructor, Resolver):
        def __init__(self, text: str) -> None:
            CParser.__init__(self, text)
            Composer.__init__(self)
            SafeConstructor.__init__(self)
            Resolver.__init__(self)

    Quick.yaml_implicit_resolvers = _Loader.yaml_implicit_resolvers
    return Quick


_QUICK = _quick_loader()


def _quickly(text: str) -> YamlText | None:
    """A sound file; None where something is to be said of it, which the loader whose words are known then says."""
    if _QUICK is None:
        return None
    try:
        loader = _QUICK(text)
        node = loader.get_single_node()
        return YamlText(loader.construct_document(node), node) if isinstance(node, yaml.MappingNode) else None
    except (yaml.YAMLError, ValueError, RecursionError):
        return None


def read_yaml(raw: bytes, file: str) -> YamlText:
    """The mapping in `raw`; `file` is the name that errors show. Raises TaskError."""
    text = _decoded(raw, file)
    if found := _quickly(text):
        return found
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        if node is None:
            raise TaskError(f"{file}: the file is empty; `specvet tasks --template` prints an example")
        if not isinstance(node, yaml.MappingNode):
            kind = "a list" if isinstance(node, yaml.SequenceNode) else "a single text"
            raise TaskError(
                f"{file}: a task file is made of `field: value` lines, but this one holds {kind}; "
                "`specvet tasks --template` prints an example"
            )
        return YamlText(data=loader.construct_document(node), node=node)
    except yaml.MarkedYAMLError as error:
        raise TaskError(f"{file}: {_plain(error, text)}") from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise TaskError(f"{file}: line {line}: holds a control character; this is no plain text file") from None
    except RecursionError:
        raise TaskError(f"{file}: lists or mappings are nested too deeply for a task file") from None
    except ValueError as error:  # a tagged scalar that does not fit its tag, such as `!!int abc`
        if isinstance(error, TaskError):
            raise
        raise TaskError(f"{file}: not valid YAML: {error}; write plain values without `!!` tags") from None


def _decoded(raw: bytes, file: str) -> str:
    if len(raw) > MAX_BYTES:
        raise TaskError(f"{file}: larger than {MAX_BYTES // 1024} kB, too large for a task file; is it the right one?")
    if b"\0" in raw:
        raise TaskError(f"{file}: this is a binary file, or text in UTF-16; a task file is YAML in UTF-8")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise TaskError(f"{file}: line {line}: not UTF-8 text; save the file as UTF-8") from None


_HINTS = (
    ("cannot start any token", "put a text that begins with a sign in quotes"),
    ("mapping values are not allowed", "a text that holds `: ` needs quotes; else check the indentation"),
    ("expected <block end>", "check the indentation of this line and the ones above"),
    ("could not find expected ':'", "a `field: value` line lacks its colon"),
    ("could not determine a constructor", "write plain values without `!` tags"),
    ("expected a single document", "one file holds one task; remove the `---` line"),
    ("while scanning a quoted scalar", "a quotation mark is not closed"),
)


def _plain(error: yaml.MarkedYAMLError, text: str) -> str:
    mark = error.problem_mark or error.context_mark
    place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
    problem = str(error.problem or error.context or "")
    if problem.startswith("but "):
        problem = f"{error.context} {problem}"
    if type(error) is yaml.MarkedYAMLError:  # raised above, in plain words already
        return f"{place}{problem}"
    words = f"{error.context or ''} {problem}"
    if "'\\t'" in words or (mark and "\t" in _indent(text, mark.line)):
        hint = "indent with spaces, not tabs"
    else:
        hint = next((hint for sign, hint in _HINTS if sign in words), "")
    return f"{place}not valid YAML: {problem}" + (f"; {hint}" if hint else "")


def _indent(text: str, line: int) -> str:
    lines = text.splitlines()
    return lines[line][: len(lines[line]) - len(lines[line].lstrip())] if line < len(lines) else ""


def _child(node: yaml.Node, part: str | int) -> tuple[int, yaml.Node] | None:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.value == str(part):
                return key.start_mark.line + 1, value
    elif isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
        child = node.value[part]
        return child.start_mark.line + 1, child
    return None
