"""What the check of the environment variables says."""

from scraper_pipeline.checkup.findings import Grade
from scraper_pipeline.checkup.variables import check_settings


def test_every_wrong_variable_is_told_at_once_and_no_secret_with_it():
    settings, found = check_settings(
        {
            "SCRAPER_DRAIN_SECONDS": "soon",
            "SCRAPER_TIMEZONE": "Mars/Olympus",
            "SCRAPER_LEDGER_URL": "mysql://root:hidden@host/db",
            "GEONODE_SCRAPER_API_KEY": "two words",
        }
    )
    assert settings is None
    assert [one.grade for one in found] == [Grade.PROBLEM] * 4
    said = " ".join(one.said for one in found)
    for name in (
        "SCRAPER_DRAIN_SECONDS",
        "SCRAPER_TIMEZONE",
        "SCRAPER_LEDGER_URL",
        "GEONODE_SCRAPER_API_KEY",
    ):
        assert f"{name} takes" in said
    assert "hidden" not in said
    assert "two words" not in said


def test_waits_that_do_not_fit_together_are_told_both():
    _, found = check_settings({"SCRAPER_SEND_LEASE_SECONDS": "30000"})
    [said] = [one.said for one in found]
    assert "SCRAPER_SEND_GRACE_SECONDS" in said
    assert "SCRAPER_UNRESOLVED_AFTER_SECONDS" in said


def test_a_misspelt_variable_is_a_warning_with_the_name_that_was_meant():
    settings, found = check_settings({"SCRAPER_DRAIN_SECOND": "5"})
    assert settings is not None
    assert [one.grade for one in found] == [Grade.OK, Grade.WARNING]
    assert found[1].advice == "Did you mean SCRAPER_DRAIN_SECONDS?"
