"""What the site's pages are put together from: the frame, paragraphs, tables, lists, listings, pictures."""

import json
from html import escape

from scraper_pipeline.sandbox.site.choice import Choice
from scraper_pipeline.sandbox.site.code import LISTINGS
from scraper_pipeline.sandbox.site.language import Language

_EMOJI = (
    "⚓",
    "🐟",
    "🌊",
    "🥖",
    "🚂",
    "📚",
    "🌦️",
    "🍋",
    "🎻",
    "🌠",
    "👩‍🔧",
    "🏴‍☠️",
    "👍🏽",
    "👨‍👩‍👧‍👦",
    "🇬🇷",
    "🧀",
)
_STYLE = "body{font:17px/1.5 system-ui;max-width:46em;margin:auto}nav a{margin-inline-end:1em}.hidden{display:none}"


def frame(language: Language, title: str, article: str, number: int) -> str:
    """A whole page around an article, with what pages carry besides: navigation, search, script, footer."""
    words = language.words
    about = json.dumps(
        {
            "@context": "https://schema.org",
            "@type": "Article",
            "headline": title,
            "inLanguage": language.code,
        },
        ensure_ascii=False,
    ).replace("<", "\\u003c")
    return f"""<!DOCTYPE html>
<html lang="{language.code}" dir="{language.direction}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="description" content="{escape(language.proverb)}">
<title>{escape(title)}</title>
<link rel="canonical" href="/site/pages/{number}">
<style>{_STYLE}</style>
<script type="application/ld+json">{about}</script>
</head>
<body>
<header><nav aria-label="main"><a href="/site/">{escape(words.home)}</a> <a href="/site/table">\
{escape(words.archive)}</a> <form action="/site/" role="search"><input name="q" \
aria-label="{escape(words.search)}"><button>{escape(words.search)}</button></form></nav></header>
<main>
<article>
<h1>{escape(title)}</h1>
{article}
</article>
</main>
<aside class="hidden" hidden>You should not be able to read this.</aside>
<footer><p><a rel="next" href="/site/pages/{number + 1}">{escape(words.next_page)} →</a></p>
<p><small>© 2026 The Harbour Almanac &middot; {escape(words.greeting)}</small></p></footer>
<script>document.documentElement.dataset.page = "{number}"; /* if (1 < 2 && 3 > 2) */</script>
</body>
</html>
"""


def paragraphs(language: Language, choice: Choice, place: str, count: int) -> list[str]:
    """Different paragraphs about a place, with figures of the page's own; one word in each stands out."""
    found = []
    for text in choice.some_of(language.paragraphs, count):
        said = escape(text).format(
            place=f"<em>{escape(place)}</em>",
            year=choice.between(1700, 1999),
            count=f"<strong>{choice.between(12, 9999)}</strong>",
            minutes=choice.between(11, 240),
            degrees=choice.between(-12, 34),
            hour=f"{choice.between(5, 9)}:{choice.between(0, 5)}0",
        )
        found.append(f"<p>{said} {choice.one_of(_EMOJI)}</p>\n")
    return found


def figure(language: Language, choice: Choice, place: str) -> str:
    description = escape(choice.one_of(language.pictures).format(place=place))
    name = f"waves-{choice.between(1, 999)}.svg"
    return (
        f'<figure><img src="/site/images/{name}" alt="{description}" width="480" height="200">'
        f"<figcaption>{description}</figcaption></figure>\n"
    )


def goods_list(language: Language, choice: Choice) -> str:
    """A list with a list in it."""
    first, *others = choice.some_of(language.goods, 4)
    inner = "".join(f"<li>{escape(name)} &times; {choice.between(2, 40)}</li>" for name in others)
    return f"<ul><li>{escape(first)}<ul>{inner}</ul></li><li>&hellip;&nbsp;&amp;c.</li></ul>\n"


def steps(language: Language, choice: Choice) -> str:
    """A numbered list, with code, links and a line break in its items."""
    words = language.words
    return (
        f"<ol><li><code>gauge --height &gt; {choice.between(1, 9)}</code></li>"
        f'<li>{escape(words.hour)}: <a href="/site/pages/{choice.between(1, 99)}?from=steps&amp;n=2#top">'
        f"{escape(words.measurements)}</a><br>{escape(words.greeting)}</li>"
        f"<li><del>{escape(words.archive)}</del> <kbd>Ctrl</kbd>+<kbd>C</kbd></li></ol>\n"
    )


def listing(choice: Choice, which: int) -> str:
    """A block of code; its lines, angle brackets and back-ticks must survive."""
    language, text = LISTINGS[which % len(LISTINGS)]
    code = text.format(a=choice.between(1, 9), b=choice.between(2, 9), c=choice.between(1, 23))
    return f'<pre><code class="language-{language}">{escape(code)}</code></pre>\n'


def tide_table(language: Language, choice: Choice, rows: int) -> str:
    """Days, hours and heights; every tenth row spans, and some cells hold a pipe."""
    words = language.words
    head = "".join(f"<th>{escape(word)}</th>" for word in (words.day, words.hour, words.height, words.notes))
    lines = []
    for row in range(1, rows + 1):
        if row % 10 == 0:
            lines.append(f'<tr><td colspan="4">{escape(language.proverb)}</td></tr>')
            continue
        height = f"{choice.between(0, 6)}.{choice.between(0, 99):02d}&nbsp;m"
        note = f"{choice.one_of(_EMOJI)} a|b" if row % 7 == 3 else choice.one_of(_EMOJI)
        lines.append(
            f"<tr><td>{row}</td><td>{choice.between(0, 23):02d}:{choice.between(0, 59):02d}</td>"
            f"<td>{height}</td><td>{note}</td></tr>"
        )
    body = "\n".join(lines)
    return f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>\n"


def price_table(language: Language, choice: Choice) -> str:
    words = language.words
    rows = "".join(
        f"<tr><th scope='row'>{escape(name)}</th><td>{choice.between(1, 80)},{choice.between(0, 99):02d}&nbsp;&euro;"
        f"</td><td>{'★' * choice.between(1, 5)}</td></tr>\n"
        for name in language.goods
    )
    heads = f"<tr><th>{escape(words.notes)}</th><th>{escape(words.price)}</th><th>&#9733;</th></tr>"
    return f"<table><caption>{escape(words.price)}</caption>\n<thead>{heads}</thead>\n<tbody>{rows}</tbody></table>\n"


def contribution(language: Language, choice: Choice) -> str:
    """What somebody says in a thread, in a language and a direction of their own."""
    place = choice.one_of(language.places)
    said = "".join(paragraphs(language, choice, place, 2))
    return (
        f'<section lang="{language.code}" dir="{language.direction}"><h3>{escape(place)} '
        f"<small>#{choice.between(100, 999)}</small></h3>{said}"
        f"<p>&mdash;&nbsp;{escape(language.words.greeting)}</p></section>\n"
    )
