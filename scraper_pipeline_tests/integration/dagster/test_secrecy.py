"""Neither secrets nor the content of pages are in any event, log, tag or metadata."""

import logging

import pytest
from sqlalchemy import make_url, select

from scraper_pipeline.ledger.schema import results
from scraper_pipeline_tests.integration.dagster.conftest import API_KEY
from scraper_pipeline_tests.integration.dagster.driving import DAY, Pipeline, on_sqlite
from scraper_pipeline_tests.integration.dagster.secrecy import everything_said


@pytest.mark.usefixtures("quick_resubmission")
def test_a_whole_day_tells_neither_the_key_nor_the_password_nor_a_word_of_a_page(
    pipeline: Pipeline,
    fresh_url: str,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    caplog.set_level(logging.DEBUG)
    pipeline.ask_for("pages/1", "pages/2", "pages/3", "flaky/4", "broken/5", "empty", "code", "table")
    pipeline.submit()
    pipeline.bring_news()
    pipeline.settle()
    pipeline.tick()
    pipeline.submit()
    pipeline.bring_news()
    pipeline.settle()
    assert pipeline.is_green()
    assert pipeline.run("publish_pages").success

    captured = capfd.readouterr()
    said = "\n".join([everything_said(pipeline.instance), caplog.text, captured.out, captured.err])

    assert DAY in said
    assert "pages/3" in said, "the text has what it should have"
    assert API_KEY not in said
    password = make_url(fresh_url).password
    assert password is None or str(password) not in said
    words = _words_of_pages(pipeline)
    assert len(words) > 50
    assert [word for word in words if word in said] == []


def _words_of_pages(pipeline: Pipeline) -> set[str]:
    """Pieces of stored pages that are long enough to be nothing else."""
    with pipeline.ledger.engine.connect() as connection:
        pages = connection.scalars(select(results.c.markdown)).all()
    lines = {line.strip() for page in pages if page for line in page.splitlines()}
    return {line[:60] for line in lines if len(line) > 30}


@on_sqlite
def test_the_resources_that_dagster_shows_have_no_configuration(pipeline: Pipeline) -> None:
    for resource in (pipeline.definitions.resources or {}).values():
        assert API_KEY not in repr(resource)
        assert not [field for field in type(resource).model_fields if field != "ledger"]
