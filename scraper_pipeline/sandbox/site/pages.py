"""The site's pages as HTML. Page n is the same text whenever it is asked for, and differs from every other."""

from functools import lru_cache
from html import escape

from scraper_pipeline.sandbox.site import parts
from scraper_pipeline.sandbox.site.choice import Choice
from scraper_pipeline.sandbox.site.code import LISTINGS
from scraper_pipeline.sandbox.site.language import Language
from scraper_pipeline.sandbox.site.texts import LANGUAGES

_LARGE_BYTES = 1_000_000
_FURTHER_CHAPTERS = (0, 0, 0, 1, 1, 2, 3)
"""Most pages are short and a few are long."""


@lru_cache(maxsize=1024)
def page(number: int) -> str:
    """An ordinary page of 2 to 20 kB: its language and its kind follow from its number."""
    language = LANGUAGES[number % len(LANGUAGES)]
    choice = Choice(number)
    place = choice.one_of(language.places)
    title = f"{choice.one_of(language.titles).format(place=place)} ({number})"
    layout = _LAYOUTS[number % len(_LAYOUTS)]
    article = layout(language, choice, place)
    for _ in range(choice.one_of(_FURTHER_CHAPTERS)):
        elsewhere = choice.one_of(language.places)
        article += f"<h2>{escape(elsewhere)}</h2>{layout(language, choice, elsewhere)}"
    return parts.frame(language, title, article, number)


def index_page() -> str:
    """The entrance, with a link to a page in each language and to every page with a behaviour of its own."""
    links = "".join(
        f'<li lang="{language.code}" dir="{language.direction}"><a href="/site/pages/{number}">'
        f"{escape(language.name)}</a>: {escape(language.words.greeting)}</li>"
        for number, language in enumerate(LANGUAGES)
    )
    special = "".join(
        f'<li><a href="/site/{path}">/site/{path}</a> — {meaning}</li>'
        for path, meaning in (
            ("large", "a page of about a megabyte"),
            ("empty", "a page with nothing in it"),
            ("code", "a page of code"),
            ("table", "a page with one long table"),
            ("broken/1", "refused for good: PERMANENT_BLOCK"),
            ("flaky/1", "refused twice with TEMPORARY_BLOCK, then served"),
            ("slow/1", "never served in time: TIMEOUT"),
            ("cancelled/1", "its job ends as cancelled"),
        )
    )
    body = f"<p>An almanac of small harbours.</p><ul>{links}</ul><h2>Special pages</h2><ul>{special}</ul>"
    return parts.frame(LANGUAGES[0], "The Harbour Almanac", body, 0)


@lru_cache(maxsize=1)
def large_page() -> str:
    """About a megabyte: a whole run of pages bound together."""
    sections: list[str] = []
    size, number = 0, 0
    while size < _LARGE_BYTES:
        number += 1
        language = LANGUAGES[number % len(LANGUAGES)]
        choice = Choice(number)
        place = choice.one_of(language.places)
        layout = _LAYOUTS[number % len(_LAYOUTS)]
        section = (
            f'<section lang="{language.code}" dir="{language.direction}"><h2>{number}. {escape(place)}</h2>'
            f"{layout(language, choice, place)}</section>"
        )
        sections.append(section)
        size += len(section.encode())
    return parts.frame(LANGUAGES[0], "The whole almanac", "".join(sections), 0)


@lru_cache(maxsize=1)
def code_page() -> str:
    """Nothing but code, in several languages."""
    listings = "".join(parts.listing(Choice(number), number) for number in range(len(LISTINGS)))
    return parts.frame(LANGUAGES[0], "Programs of the harbour office", listings, 0)


@lru_cache(maxsize=1)
def table_page() -> str:
    """One table of two hundred rows, with cells that span and cells that hold a pipe."""
    return parts.frame(
        LANGUAGES[0], "Every tide of the year", parts.tide_table(LANGUAGES[0], Choice(1), 200), 0
    )


def image(name: str) -> str:
    """A drawing of waves, differing by its name."""
    hue = Choice(sum(name.encode())).between(160, 240)
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" width="480" height="200" role="img">'
        f'<rect width="480" height="200" fill="hsl({hue} 60% 88%)"/>'
        f'<path d="M0 120q60-40 120 0t120 0 120 0 120 0V200H0z" fill="hsl({hue} 50% 45%)"/></svg>'
    )


def _report(language: Language, choice: Choice, place: str) -> str:
    """An article with pictures and a quotation."""
    texts = parts.paragraphs(language, choice, place, choice.between(5, 8))
    half = len(texts) // 2
    return (
        f"{''.join(texts[:half])}{parts.figure(language, choice, place)}"
        f"<h2>{escape(language.words.notes)}</h2>{''.join(texts[half:])}"
        f"<blockquote><p>{escape(language.proverb)}</p></blockquote>{parts.goods_list(language, choice)}"
    )


def _timetable(language: Language, choice: Choice, place: str) -> str:
    """Mostly figures."""
    texts = parts.paragraphs(language, choice, place, 2)
    return (
        f"{texts[0]}<h2>{escape(language.words.measurements)}</h2>"
        f"{parts.tide_table(language, choice, choice.between(8, 24))}{texts[1]}"
    )


def _handbook(language: Language, choice: Choice, place: str) -> str:
    """Instructions with code between them."""
    texts = parts.paragraphs(language, choice, place, 4)
    start = choice.between(0, len(LISTINGS) - 1)
    return (
        f"{texts[0]}{parts.listing(choice, start)}{texts[1]}{parts.listing(choice, start + 1)}"
        f"{parts.steps(language, choice)}{texts[2]}{texts[3]}"
    )


def _shop(language: Language, choice: Choice, place: str) -> str:
    """Goods and their prices."""
    texts = parts.paragraphs(language, choice, place, 3)
    return (
        f"{texts[0]}{parts.figure(language, choice, place)}{parts.price_table(language, choice)}"
        f"{texts[1]}{parts.goods_list(language, choice)}{texts[2]}"
    )


def _thread(language: Language, choice: Choice, place: str) -> str:
    """A conversation to which everyone contributes in a language of their own."""
    others = choice.some_of([other for other in LANGUAGES if other is not language], 4)
    opening = parts.paragraphs(language, choice, place, 2)
    answers = "".join(parts.contribution(other, choice) for other in others)
    return f"<h2>{escape(language.words.questions)}</h2>{''.join(opening)}{answers}"


_LAYOUTS = (_report, _timetable, _handbook, _shop, _thread)
