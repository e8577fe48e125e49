"""Whether the receiver, as it is set, would take what the service delivers: one delivery is awaited, and read."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

from pydantic import SecretStr

from scraper_pipeline.checkup.findings import Finding, Subject
from scraper_pipeline.checkup.live.endpoint import Endpoint, RawDelivery, listening
from scraper_pipeline.checkup.live.page import SeenPage
from scraper_pipeline.checkup.live.reading import STANDARD_HEADER, Signature, find_paths, find_signatures
from scraper_pipeline.checkup.live.temporary import temporary_webhook
from scraper_pipeline.receiver.config import ReceiverConfig, Scheme
from scraper_pipeline.receiver.events import EventReader
from scraper_pipeline.scraper_api import Delivery as LoggedDelivery
from scraper_pipeline.scraper_api import NotOffered, ScraperClient, ScraperError
from scraper_pipeline.settings import Settings

_DELIVERY = Subject("delivery")
_EVENT = "extract_completed"
_NO_SETTING = "No setting changes this: please report it, with the release."


@dataclass(frozen=True)
class Mailbox:
    """Where a delivery is awaited: the public URL, and the address of this machine that it leads to."""

    url: str
    host: str
    port: int


async def watch_deliveries(
    client: ScraperClient,
    settings: Settings,
    mailbox: Mailbox,
    try_page: Callable[[], Awaitable[SeenPage]],
    wait: float,
    tell: Callable[[str], None],
) -> list[Finding]:
    """Register a webhook, have a page extracted by ``try_page``, and read the delivery of its job.

    Where there are no webhooks the page is extracted all the same. Raises OSError and ScraperError.
    """
    found: list[Finding] = []
    secret: SecretStr | None = None

    def is_signed(delivery: RawDelivery) -> bool:
        return secret is not None and bool(find_signatures(delivery, secret))

    def note_left(what: str) -> None:
        left = _DELIVERY.problem(
            f"The temporary webhook was not removed: {what}.", "Run this again, or remove it by hand."
        )
        tell(f"{left.said} {left.advice}")  # at once: after an interruption no finding is shown
        found.append(left)

    async with listening(mailbox.host, mailbox.port, is_signed) as endpoint:
        try:
            async with temporary_webhook(client, mailbox.url, _EVENT, note_left) as webhook:
                secret = webhook.secret
                page = await try_page()
                job_id = page.job_id.encode()
                delivery = await endpoint.wait_for(lambda one: job_id in one.body, wait)
                log = await _read_log(client, webhook.webhook_id, page.job_id)
        except NotOffered:
            await try_page()
            return []
    if delivery is None:
        return [_judge_silence(log, endpoint, mailbox), *found]
    came = _DELIVERY.ok(f"One came {delivery.at - page.sent_at:.1f} s after the page was submitted.")
    return [came, *judge_delivery(delivery, webhook.secret, page.job_id, log, settings), *found]


async def _read_log(client: ScraperClient, webhook_id: str, job_id: str) -> list[LoggedDelivery] | None:
    """The log's attempts for a job, or None where it can't be read."""
    try:
        listing = await client.list_deliveries(webhook_id)
    except ScraperError:
        return None
    return [one for one in listing.items if one.job_id in (job_id, None)]


def _judge_silence(log: list[LoggedDelivery] | None, endpoint: Endpoint, mailbox: Mailbox) -> Finding:
    statuses = sorted({one.http_status for one in log or () if one.http_status})
    if statuses:
        told = ", ".join(map(str, statuses))
        return _DELIVERY.problem(
            f"The service has delivered, and somebody else has answered {told} at {mailbox.url}.",
            f"Have that URL lead to {mailbox.host}:{mailbox.port} for the moment, where a receiver would listen.",
        )
    others = f" ({endpoint.requests} other requests came)" if endpoint.requests else ""
    if log:
        return _DELIVERY.problem(
            f"The service has tried {mailbox.url}, and reached nobody{others}.",
            f"See that it is public, has a valid certificate, and leads to {mailbox.host}:{mailbox.port}.",
        )
    return _DELIVERY.problem(
        f"No delivery came{others}, and the service's log has none.",
        "Wait longer by --wait; polling goes on without.",
    )


def judge_delivery(
    delivery: RawDelivery,
    secret: SecretStr,
    job_id: str,
    log: Sequence[LoggedDelivery] | None,
    settings: Settings,
) -> list[Finding]:
    """Whether the receiver would verify it, and find the job, the event and the delivery's id in it."""
    found = [_judge_signature(find_signatures(delivery, secret), delivery, settings)]
    headers = {name.lower(): value for name, value in delivery.headers}
    config = ReceiverConfig(
        job_id_paths=settings.webhook_job_id_paths,
        event_paths=settings.webhook_event_paths,
        delivery_id_paths=settings.webhook_delivery_id_paths,
    )
    job = EventReader(config).read(delivery.body, headers)
    # Without its job a delivery is not read any further: event and id are looked for as if it were found.
    at = (*config.job_id_paths, *find_paths(delivery.body, {job_id}))
    rest = EventReader(replace(config, job_id_paths=at)).read(delivery.body, headers)
    ids = {one.delivery_id for one in log or ()}
    if header := headers.get(b"x-webhook-delivery-id"):
        ids.add(header.decode("latin-1"))
    for what, value, wanted, variable in (
        ("the job", getattr(job, "job_id", None), {job_id}, "SCRAPER_WEBHOOK_JOB_ID_PATHS"),
        ("the event", getattr(rest, "event_type", None), {_EVENT}, "SCRAPER_WEBHOOK_EVENT_PATHS"),
        ("the delivery's id", getattr(rest, "delivery_id", None), ids, "SCRAPER_WEBHOOK_DELIVERY_ID_PATHS"),
    ):
        if not wanted:
            continue
        paths = find_paths(delivery.body, wanted)
        if value in wanted:
            where = f"at `{paths[0]}`" if paths else "in its header"
            found.append(_DELIVERY.ok(f"It names {what} {where}, where the receiver looks."))
        elif paths:
            found.append(_DELIVERY.mismatch(f"It names {what} at `{paths[0]}`.", {variable: paths[0]}))
        elif what == "the job":
            found.append(_DELIVERY.problem("It names the job nowhere that a path can lead to.", _NO_SETTING))
        else:
            found.append(_DELIVERY.warning(f"It names {what} nowhere.", "Nothing depends on it."))
    return found


def _judge_signature(signatures: Sequence[Signature], delivery: RawDelivery, settings: Settings) -> Finding:
    if not signatures:
        names = ", ".join(sorted({name.decode("latin-1")[:60] for name, _ in delivery.headers}))
        return _DELIVERY.problem(
            f"Nothing in its headers ({names}) is a signature of the body by the webhook's secret that is known.",
            "See that no proxy in between changes a body or drops a header; otherwise, please report it.",
        )
    fitting = [one for one in signatures if _fits(one, settings)]
    if fitting:
        return _DELIVERY.ok(
            f"It is signed in {fitting[0].header} as {fitting[0].scheme}, as the receiver expects."
        )
    seen = signatures[0]
    wanted = {"SCRAPER_SIGNATURE_SCHEMES": str(seen.scheme)}
    if seen.scheme is not Scheme.STANDARD:
        wanted = {"GEONODE_SIGNATURE_HEADER": seen.header} | (
            {} if str(seen.scheme) in settings.signature_schemes else wanted
        )
        if seen.header.lower() == settings.signature_header.lower():
            del wanted["GEONODE_SIGNATURE_HEADER"]
    return _DELIVERY.mismatch(f"It is signed in {seen.header} as {seen.scheme}.", wanted)


def _fits(signature: Signature, settings: Settings) -> bool:
    if str(signature.scheme) not in settings.signature_schemes:
        return False
    expected = STANDARD_HEADER if signature.scheme is Scheme.STANDARD else settings.signature_header
    return signature.header.lower() == expected.lower()
