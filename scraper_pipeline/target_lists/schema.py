"""The JSON schema of `targets.yaml`, for editors; `make targets-schema` writes it beside this module."""

import json
from pathlib import Path

from scraper_pipeline.target_lists.catalogue import Catalogue

SCHEMA = Path(__file__).with_name("targets.schema.json")


def schema_text() -> str:
    """The schema that the model gives."""
    schema = Catalogue.model_json_schema()
    options = schema["$defs"]["ExtractOptions"]
    del options["properties"]["headers"]  # which no list takes
    options["description"] = "Options of the extraction, as the columns of a CSV have them."
    schema["properties"]["lists"]["additionalProperties"] = False  # a name that is none
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "targets.yaml"}
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"
