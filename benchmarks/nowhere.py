"""The receiver without a database, to tell what the commits cost: everything is the same but that nothing is kept."""

import sys
from collections.abc import Sequence

from pydantic import SecretStr

from scraper_pipeline.ledger import Delivery, QuarantinedBody
from scraper_pipeline.receiver import create_receiver, serve
from scraper_pipeline.webhook_secrets import KnownSecrets


class Nowhere:
    """A store that says that it has kept what it has not."""

    def commit(self, deliveries: Sequence[Delivery], quarantined: Sequence[QuarantinedBody]) -> list[bool]:
        return [True] * len(deliveries)

    def check(self) -> None:
        pass


if __name__ == "__main__":
    secret, port = sys.argv[1:]
    serve(create_receiver(Nowhere, KnownSecrets(fixed=[SecretStr(secret)])), port=int(port))
