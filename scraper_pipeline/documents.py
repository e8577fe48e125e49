"""The YAML that people write: read by a model, with everything that is wrong told by its line."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any, BinaryIO, Generic, TypeVar

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

_LARGEST = 1024 * 1024
_DEEPEST = 8
_MOST_VALUES = 100_000
Place = tuple[str | int, ...]
M = TypeVar("M", bound=BaseModel)


class DocumentError(Exception):
    """The file is not what it has to be; the message names everything that is wrong with it, with its line."""


@dataclass(frozen=True)
class Fault:
    """What is wrong, and on which line, counted from 1."""

    line: int
    text: str


@dataclass(frozen=True)
class Document:
    """Mappings, lists, and scalars as the text that they were written as: `NO` is a country, and `12:30` a time.

    Keys without a value are left out. ``lines`` has the line of every key, and of every item of a list.
    """

    value: Any
    lines: Mapping[Place, int]
    faults: tuple[Fault, ...]

    def line_of(self, place: Place) -> int:
        """The line of a place, or of what would hold it."""
        while place and place not in self.lines:
            place = place[:-1]
        return self.lines.get(place, 1)


@dataclass(frozen=True)
class Form(Generic[M]):
    """What a file takes: its model, the keys that are known at a place, and what the keys of people's own name.

    ``aside`` are parts of pydantic's places that are none in the file. A key without a value counts as left out, or
    with ``refuses_empty`` as a fault, since it may be meant as none at all.
    """

    model: type[M]
    known_keys: Callable[[Place], Iterable[str]]
    names: str
    aside: frozenset[str] = frozenset()
    refuses_empty: bool = False
    instead: Mapping[str, str] = field(default_factory=dict)
    """What to do in place of a key that nobody should write, by that key."""

    def read(
        self, path: Path, file: BinaryIO, check: Callable[[M], Iterable[tuple[Place, str]]] = lambda read: ()
    ) -> M:
        """What the file says. ``check`` tells what the model can't, and at which place.

        Raises DocumentError.
        """
        document = read_document(path, file, refuses_empty=self.refuses_empty)
        faults = list(document.faults)
        read = None
        try:
            read = self.model.model_validate({} if document.value is None else document.value)
        except ValidationError as error:
            faults += [self._fault(problem, document) for problem in error.errors(include_url=False)]
        else:
            faults += [Fault(document.line_of(place), text) for place, text in check(read)]
        if faults or read is None:
            told = dict.fromkeys(
                f"line {fault.line}: {fault.text}" for fault in sorted(faults, key=lambda fault: fault.line)
            )
            raise DocumentError(f"{path}, {'; '.join(told)}")
        return read

    def _fault(self, problem: ErrorDetails, document: Document) -> Fault:
        place = tuple(part for part in problem["loc"] if part not in self.aside)
        line = document.line_of(place)
        if problem["type"] == "extra_forbidden":
            return Fault(line, self._unknown(place))
        if place[-1:] == ("[key]",):
            return Fault(line, f"the name of {self.names} takes letters, digits and underscores, at most 60")
        context = problem.get("ctx", {})
        takes = str(context["error"]) if problem["type"] == "value_error" else problem["msg"]
        if problem["type"] in _TAKES:
            takes = _TAKES[problem["type"]].format_map(context)
        what = ".".join(key_shown(str(part)) for part in place) or "the file"
        return Fault(line, f"{what} {takes}")

    def _unknown(self, place: Place) -> str:
        shown = ".".join(key_shown(str(part)) for part in place)
        if place[-1] in self.instead:
            return f"{shown} is unknown; {self.instead[str(place[-1])]}"
        known = list(self.known_keys(place[:-1]))
        close = get_close_matches(str(place[-1]).lower(), known, n=1, cutoff=0.6)
        meant = f"did you mean {close[0]}?" if close else f"known are {', '.join(known)}"
        return f"{shown} is unknown; {meant}"


_TAKES = {
    "missing": "is missing",
    "model_type": "takes a mapping",
    "dict_type": "takes a mapping",
    "string_type": "takes a text",
    "string_too_short": "takes a text that is not empty",
    "int_parsing": "takes a whole number",
    "int_from_float": "takes a whole number",
    "bool_parsing": "takes true or false",
    "greater_than_equal": "takes {ge} or more",
    "less_than_equal": "takes {le} or less",
    "literal_error": "takes {expected}",
    "too_short": "takes at least {min_length}",
    "string_pattern_mismatch": "takes what matches {pattern}",
}


def read_document(path: Path, file: BinaryIO, *, refuses_empty: bool = False) -> Document:
    """Read an open file. Raises DocumentError for what is no YAML."""
    raw = file.read(_LARGEST + 1)
    if len(raw) > _LARGEST:
        raise DocumentError(f"{path} is larger than {_LARGEST} bytes: is it the file that was meant?")
    try:
        text = raw.decode("utf-8-sig")
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except UnicodeDecodeError:
        raise DocumentError(f"{path} is not UTF-8: save it as UTF-8") from None
    except RecursionError:
        raise DocumentError(f"{path} is nested too deeply") from None
    except yaml.YAMLError as error:
        mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
        where = f", line {mark.line + 1}" if mark else ""
        raise DocumentError(
            f"{path}{where}: this is no YAML ({problem or 'a character is not allowed'})"
        ) from None
    reading = _Reading(refuses_empty)
    value = None if root is None else reading.value(root, ())
    return Document(value, reading.lines, tuple(reading.faults))


@dataclass
class _Reading:
    refuses_empty: bool = False
    lines: dict[Place, int] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    _values: int = 0

    def value(self, node: yaml.Node, place: Place) -> Any:
        self._values += 1
        # Aliases can make much, or what has no end, of a few lines.
        if len(place) > _DEEPEST or self._values > _MOST_VALUES:
            if self._values <= _MOST_VALUES + 1:
                self.faults.append(Fault(node.start_mark.line + 1, "this is nested too deeply, or too long"))
            return None
        if isinstance(node, yaml.MappingNode):
            return dict(self._entries(node, place))
        if isinstance(node, yaml.SequenceNode):
            return [self._item(item, (*place, index)) for index, item in enumerate(node.value)]
        return None if node.tag == "tag:yaml.org,2002:null" else node.value

    def _entries(self, node: yaml.MappingNode, place: Place) -> Iterator[tuple[str, Any]]:
        seen: set[str] = set()
        for key, value in node.value:
            line = key.start_mark.line + 1
            if not isinstance(key, yaml.ScalarNode):
                self.faults.append(Fault(line, "a key takes one word"))
            elif key.value in seen:
                self.faults.append(Fault(line, f"{key_shown(key.value)} stands here a second time"))
            else:
                seen.add(key.value)
                self.lines[(*place, key.value)] = line
                plain = self.value(value, (*place, key.value))
                if plain is not None:
                    yield key.value, plain
                elif self.refuses_empty:
                    self.faults.append(
                        Fault(line, f"{key_shown(key.value)} is empty: give it a value, or leave it out")
                    )

    def _item(self, node: yaml.Node, place: Place) -> Any:
        self.lines[place] = node.start_mark.line + 1
        return self.value(node, place)


def key_shown(key: str) -> str:
    """The key, if it looks like one: what got there by mistake may hold a password."""
    return key if len(key) <= 60 and all(letter.isalnum() or letter in "_-" for letter in key) else "a key"
