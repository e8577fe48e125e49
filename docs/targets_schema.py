"""Writes the JSON schema of `targets.yaml` from its model: `make targets-schema`. `--check` compares."""

import sys

from scraper_pipeline.target_lists.schema import SCHEMA, schema_text


def main(arguments: list[str]) -> int:
    if "--check" not in arguments:
        SCHEMA.write_text(schema_text(), "utf-8")
        return 0
    if SCHEMA.read_text("utf-8") == schema_text():
        return 0
    print(f"{SCHEMA.name} is not that of the code: run make targets-schema", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
