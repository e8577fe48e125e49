"""The list of deliberate breakages keeps up with the source that it breaks."""

import ast

import pytest

from scraper_pipeline_tests.mutations.breakage import MACHINE, Breakage
from scraper_pipeline_tests.mutations.catalogue import BREAKAGES
from scraper_pipeline_tests.mutations.running import SOURCE


@pytest.mark.parametrize("breakage", BREAKAGES, ids=lambda breakage: breakage.name)
def test_a_breakage_applies_to_the_present_source_and_leaves_it_readable(breakage: Breakage) -> None:
    for path, text in breakage.changed_files(SOURCE).items():
        assert text != (SOURCE / path).read_text(encoding="utf-8")
        ast.parse(text, path)


@pytest.mark.parametrize("breakage", BREAKAGES, ids=lambda breakage: breakage.name)
def test_the_tests_that_must_notice_a_breakage_exist(breakage: Breakage) -> None:
    assert breakage.tests
    for test in (*breakage.tests, MACHINE):
        path, _, name = test.partition("::")
        text = (SOURCE / path).read_text(encoding="utf-8")
        assert not name or f"def {name}(" in text


def test_no_two_breakages_have_one_name() -> None:
    assert len({breakage.name for breakage in BREAKAGES}) == len(BREAKAGES)
