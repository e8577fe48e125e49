"""What the site says in one language."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Words:
    """The fixed words of a page, in the order of the site's furniture."""

    home: str
    archive: str
    search: str
    notes: str
    measurements: str
    questions: str
    """Heading of a forum thread."""
    day: str
    hour: str
    height: str
    price: str
    next_page: str
    greeting: str


@dataclass(frozen=True)
class Language:
    """A language's own texts. `paragraphs` may hold {place}, {year}, {count}, {minutes}, {degrees} and {hour}."""

    code: str
    name: str
    words: Words
    places: tuple[str, ...]
    titles: tuple[str, ...]
    """Each holds {place}."""
    paragraphs: tuple[str, ...]
    pictures: tuple[str, ...]
    """Descriptions of pictures, each may hold {place}."""
    goods: tuple[str, ...]
    proverb: str
    direction: Literal["ltr", "rtl"] = "ltr"
