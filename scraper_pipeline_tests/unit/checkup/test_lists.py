"""What the check of the target lists says."""

from datetime import date
from pathlib import Path

from scraper_pipeline.checkup.findings import Grade
from scraper_pipeline.checkup.lists import check_target_lists

DAY = date(2026, 1, 5)


def _list(folder: Path, text: str, name: str = "targets.csv") -> str:
    (folder / name).write_text(text)
    return str(folder / name)


def test_a_good_list_is_counted(tmp_path: Path):
    location = _list(tmp_path, "url\nhttps://a.test/\nhttps://b.test/\nhttps://a.test/\n")
    [found] = check_target_lists(location, DAY)
    assert found.grade is Grade.OK
    assert "has 2 targets, 1 more are named twice" in found.said


def test_the_first_rows_that_give_no_target_are_told_with_their_reasons(tmp_path: Path):
    location = _list(tmp_path, "url\nhttps://a.test/\n" + "nowhere\n" * 5)
    [found] = check_target_lists(location, DAY)
    assert found.grade is Grade.WARNING
    assert "has 1 targets; 5 rows give none: row 3: this is no http or https URL" in found.said
    assert "row 5" in found.said
    assert "row 6" not in found.said


def test_an_empty_list_is_a_warning_and_an_absent_one_a_problem(tmp_path: Path):
    [empty] = check_target_lists(_list(tmp_path, "url\n"), DAY)
    [absent] = check_target_lists(str(tmp_path / "nowhere.csv"), DAY)
    assert (empty.grade, absent.grade) == (Grade.WARNING, Grade.PROBLEM)
    assert "nowhere.csv" in absent.said


def test_each_list_of_a_file_of_lists_is_told_by_its_name(tmp_path: Path):
    _list(tmp_path, "url\nhttps://a.test/\n", "good.csv")
    location = _list(
        tmp_path, "lists:\n  good: {source: good.csv}\n  lost: {source: lost.csv}\n", "targets.yaml"
    )
    good, lost = check_target_lists(location, DAY)
    assert (good.grade, lost.grade) == (Grade.OK, Grade.PROBLEM)
    assert "list good has 1 targets" in good.said
    assert "List lost" in lost.said
    [wrong] = check_target_lists(_list(tmp_path, "lists: []\n", "wrong.yaml"), DAY)
    assert wrong.grade is Grade.PROBLEM
