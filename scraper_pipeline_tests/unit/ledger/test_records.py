"""The ledger's values, which decide what is empty, what is the same URL, and when to try again."""

import pytest

from scraper_pipeline.ledger import CommitReport, Progress, ResubmissionPolicy, StoredPage, hash_url


def _page(markdown: str | None, html: str | None = None) -> StoredPage:
    return StoredPage(markdown, html, {}, 200, 1, None)


@pytest.mark.parametrize(
    ("markdown", "html", "is_empty"),
    [
        (None, None, True),
        ("", "", True),
        (" \n", None, True),
        ("a", None, False),
        ("", "<p>", False),
        (None, "<p>", False),
    ],
)
def test_a_page_is_empty_without_any_visible_content(
    markdown: str | None, html: str | None, is_empty: bool
) -> None:
    assert _page(markdown, html).is_empty is is_empty


def test_the_content_hash_is_over_the_markdown_or_else_the_html() -> None:
    assert _page("a", "b").content_sha256 == _page("a", "c").content_sha256 == _page(None, "a").content_sha256
    assert _page("a").content_sha256 != _page("b").content_sha256
    assert _page("", "b").content_sha256 == _page(None, None).content_sha256


@pytest.mark.parametrize("url", ["https://site.test/", "https://site.test/" + "x" * 5000, "\u4e2d", "\ud800"])
def test_a_url_of_any_length_has_a_short_key(url: str) -> None:
    assert len(hash_url(url)) == 32
    assert hash_url(url) == hash_url(url)
    assert hash_url(url) != hash_url(url + "x")


def test_waits_between_attempts_double_and_stop_growing() -> None:
    policy = ResubmissionPolicy(max_attempts=99, first_delay_seconds=5)
    assert [policy.delay_after(n).total_seconds() for n in (1, 2, 3)] == [5, 10, 20]
    assert policy.delay_after(11) == policy.delay_after(5000)


def test_reports_add_up_field_by_field() -> None:
    one = CommitReport(
        stored=1, empty=2, dead=3, resubmitted=4, given_up=5, processed=6, postponed=7, dropped=8
    )
    assert one + CommitReport() == one
    assert (one + one).dropped == 16
    assert (one + one).stored == 2


def test_a_day_without_targets_is_settled() -> None:
    assert Progress().is_settled
    assert Progress().targets == 0
    assert not Progress(sending=1).is_accepted
    assert Progress(accepted=1).is_accepted
