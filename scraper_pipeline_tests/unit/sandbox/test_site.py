"""The site's pages and the lists of targets."""

import re
from collections import Counter

import pytest

from scraper_pipeline.sandbox import site_targets
from scraper_pipeline.sandbox.markdown import to_markdown
from scraper_pipeline.sandbox.site import pages

BASE = "http://127.0.0.1:8765"
SCRIPTS = {
    "Latin": "[a-zß]",
    "Greek": "[α-ω]",
    "Cyrillic": "[а-я]",
    "Arabic": "[ا-ي]",
    "Hebrew": "[א-ת]",
    "Devanagari": "[क-ह]",
    "Thai": "[ก-ฮ]",
    "Han": "[一-龥]",
    "Kana": "[ぁ-ん]",
    "Hangul": "[가-힣]",
    "emoji": "[🌊🐟🚂👍🧀]",
}


def test_a_page_is_the_same_whenever_it_is_asked_for():
    made = [pages.page(number) for number in range(60)]
    pages.page.cache_clear()
    assert [pages.page(number) for number in range(60)] == made


def test_no_two_pages_have_the_same_content():
    contents = {to_markdown(pages.page(number)).partition("\n")[2] for number in range(500)}
    assert len(contents) == 500


def test_pages_weigh_between_two_and_twenty_kilobytes():
    sizes = [len(pages.page(number).encode()) for number in range(1000)]
    assert min(sizes) >= 2_000
    assert max(sizes) <= 20_000
    assert max(sizes) > 4 * min(sizes)


@pytest.mark.parametrize("script", SCRIPTS)
def test_every_script_has_whole_pages_of_its_own(script: str):
    texts = [to_markdown(pages.page(number)) for number in range(60)]
    written = [
        text for text in texts if len(re.findall(SCRIPTS[script], text)) > (3 if script == "emoji" else 100)
    ]
    assert len(written) >= 5


def test_pages_from_right_to_left_say_so():
    assert '<html lang="ar" dir="rtl">' in pages.page(1)
    assert '<html lang="he" dir="rtl">' in pages.page(8)


def test_markdown_keeps_what_a_reader_sees_and_drops_the_rest():
    every = "\n".join(to_markdown(pages.page(number)) for number in range(60))
    assert "```python\ndef tide_height(hour: float" in every
    assert "<awake>" in every
    assert "| --- | --- |" in every
    assert r"a\|b" in every
    assert re.search(r"!\[[^\]]+\]\(/site/images/waves-\d+\.svg\)", every)
    assert re.search(r"^1\. `gauge --height > \d`", every, re.MULTILINE)
    assert "… &c." in every
    for unseen in ("should not be able", "schema.org", "font:17px", "dataset", "&amp;c", 'role="search"'):
        assert unseen not in every


def test_the_large_page_is_about_a_megabyte_and_can_be_converted():
    assert 1_000_000 <= len(pages.large_page().encode()) < 1_100_000
    assert len(to_markdown(pages.large_page())) > 300_000


def test_an_empty_page_converts_to_an_empty_text():
    assert to_markdown("") == ""


def kinds(targets: list[str]) -> Counter[str]:
    return Counter(target.removeprefix(f"{BASE}/site/").split("/")[0].split("?")[0] for target in targets)


def test_of_every_two_hundred_targets_the_troublesome_ones_are_known():
    expected = Counter(pages=192, broken=2, flaky=2, slow=1, cancelled=1, empty=1, large=1)
    assert kinds(site_targets(BASE, 200)) == expected
    assert kinds(site_targets(f"{BASE}/", 600)[400:]) == expected


def test_twenty_targets_hold_one_of_each_kind():
    assert set(kinds(site_targets(BASE, 20))) == {
        "pages",
        "broken",
        "flaky",
        "slow",
        "cancelled",
        "empty",
        "large",
    }


def test_no_target_comes_twice():
    assert len(set(site_targets(BASE, 20_000))) == 20_000
    assert site_targets(BASE, 0) == []
