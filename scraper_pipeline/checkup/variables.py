"""Whether the environment variables can be used, and whether one of them is misspelt."""

from collections.abc import Mapping

from scraper_pipeline.checkup.findings import Finding, Subject
from scraper_pipeline.settings import Settings, SettingsError, load_settings, unknown_variables, variables

_SETTINGS = Subject("settings")


def check_settings(environ: Mapping[str, str]) -> tuple[Settings | None, list[Finding]]:
    """The settings, unless they cannot be used, and a finding for each variable that is wrong or that nobody reads."""
    settings, found = None, []
    try:
        settings = load_settings(environ)
    except SettingsError as error:
        found += [
            _SETTINGS.problem(one, "Correct or unset it: docs/settings.md lists what each takes.")
            for one in error.problems
        ]
    else:
        count = sum(bool(environ.get(name, "").strip()) for name in variables())
        found.append(
            _SETTINGS.ok(f"{count} variables are set, and all can be used; the rest are at their defaults.")
        )
    for name, meant in unknown_variables(environ).items():
        advice = f"Did you mean {meant}?" if meant else "Unset it, or look up its name in docs/settings.md."
        found.append(_SETTINGS.warning(f"{name} is set, but nothing reads it.", advice))
    return settings, found
