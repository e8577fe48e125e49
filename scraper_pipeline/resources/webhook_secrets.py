"""The webhooks' secrets as a Dagster resource."""

import dagster as dg

from scraper_pipeline.settings import load_settings
from scraper_pipeline.webhook_secrets import SecretsFile


class WebhookSecretsResource(dg.ConfigurableResource):  # type: ignore[type-arg]
    """Opens the file that GEONODE_WEBHOOK_SECRETS_FILE names, which the receiver reads."""

    def open(self) -> SecretsFile:
        return SecretsFile(load_settings().webhook_secrets_file)
