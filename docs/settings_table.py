"""Writes the table of docs/settings.md from the settings themselves: `make settings-table`. `--check` compares."""

import sys
from pathlib import Path

from scraper_pipeline.settings import Settings, project_folder

PAGE = Path(__file__).resolve().parent / "settings.md"
BEGIN, END = "<!-- settings: begin -->\n", "<!-- settings: end -->\n"
# Dagster reads this one itself; `make demo` and `make dev` set it.
DAGSTER_HOME = ("DAGSTER_HOME", "`var/dagster`", "where Dagster keeps its runs and its `dagster.yaml`")


def table() -> str:
    rows = [
        (str(field.alias), _shown(field.get_default(call_default_factory=True)), str(field.description))
        for field in Settings.model_fields.values()
    ]
    lines = [f"| `{name}` | {default} | {meaning} |" for name, default, meaning in (*rows, DAGSTER_HOME)]
    return "\n".join(["| variable | default | what it decides |", "|---|---|---|", *lines, ""])


def _shown(default: object) -> str:
    if default is None:
        return "not set"
    value = default.get_secret_value() if hasattr(default, "get_secret_value") else default
    text = ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
    return f"`{text.replace(f'{project_folder()}/', '')}`"


def main(arguments: list[str]) -> int:
    text = PAGE.read_text("utf-8")
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    written = f"{before}{BEGIN}\n{table()}\n{END}{after}"
    if "--check" not in arguments:
        PAGE.write_text(written, "utf-8")
        return 0
    if written == text:
        return 0
    print("The table of docs/settings.md is not that of the code: run make settings-table", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
