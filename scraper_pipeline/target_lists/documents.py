"""YAML as plain values with the line of each, so that a fault can be told where it is."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from scraper_pipeline.target_lists.entries import TargetListError
from scraper_pipeline.target_lists.lines import open_list

_LARGEST = 1024 * 1024
_DEEPEST = 8
_MOST_VALUES = 100_000
Place = tuple[str | int, ...]


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


def read_document(path: Path) -> Document:
    """Read a file. Raises TargetListError for what is no YAML."""
    with open_list(path) as file:
        raw = file.read(_LARGEST + 1)
    if len(raw) > _LARGEST:
        raise TargetListError(f"{path} is larger than {_LARGEST} bytes: is it a list of lists?")
    try:
        text = raw.decode("utf-8-sig")
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except UnicodeDecodeError:
        raise TargetListError(f"{path} is not UTF-8: save it as UTF-8") from None
    except RecursionError:
        raise TargetListError(f"{path} is nested too deeply") from None
    except yaml.YAMLError as error:
        mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
        where = f", line {mark.line + 1}" if mark else ""
        raise TargetListError(
            f"{path}{where}: this is no YAML ({problem or 'a character is not allowed'})"
        ) from None
    reading = _Reading()
    value = None if root is None else reading.value(root, ())
    return Document(value, reading.lines, tuple(reading.faults))


@dataclass
class _Reading:
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

    def _item(self, node: yaml.Node, place: Place) -> Any:
        self.lines[place] = node.start_mark.line + 1
        return self.value(node, place)


def key_shown(key: str) -> str:
    """The key, if it looks like one: what got there by mistake may hold a password."""
    return key if len(key) <= 60 and all(letter.isalnum() or letter in "_-" for letter in key) else "a key"
