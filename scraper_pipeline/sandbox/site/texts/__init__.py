"""The site's languages, in the order in which its pages use them."""

from scraper_pipeline.sandbox.site.texts.east_asian import CHINESE, JAPANESE, KOREAN
from scraper_pipeline.sandbox.site.texts.greek_and_cyrillic import GREEK, RUSSIAN
from scraper_pipeline.sandbox.site.texts.latin import ENGLISH, FRENCH, GERMAN
from scraper_pipeline.sandbox.site.texts.right_to_left import ARABIC, HEBREW
from scraper_pipeline.sandbox.site.texts.south_asian import HINDI, THAI

LANGUAGES = (
    ENGLISH,
    ARABIC,
    JAPANESE,
    FRENCH,
    RUSSIAN,
    HINDI,
    GREEK,
    CHINESE,
    HEBREW,
    GERMAN,
    KOREAN,
    THAI,
)

__all__ = ["LANGUAGES"]
