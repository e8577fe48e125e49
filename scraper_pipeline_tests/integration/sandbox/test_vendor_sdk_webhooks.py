"""The vendor's own SDK finds in the sandbox's webhooks what it expects of the service's."""

from collections.abc import Iterator
from uuid import UUID, uuid4

import geonode_scraper_sdk as sdk
import pytest
from geonode_scraper_sdk import (
    ErrorResponse,
    HTTPValidationError,
    WebhookCreate,
    WebhookEventType,
    WebhookUpdate,
)
from geonode_scraper_sdk.exceptions import (
    NotFoundException,
    ServiceException,
    UnauthorizedException,
    UnprocessableEntityException,
)

from scraper_pipeline.sandbox import SandboxConfig, SandboxServer
from scraper_pipeline_tests.integration.sandbox.conftest import Caller
from scraper_pipeline_tests.integration.sandbox.receiver import Receiver

NOWHERE = "http://127.0.0.1:1/hook"


def client_of(sandbox: SandboxServer) -> sdk.ApiClient:
    configuration = sdk.Configuration(host=sandbox.url, api_key={"ApiKeyAuth": "any"}, retries=False)
    return sdk.ApiClient(configuration)


@pytest.fixture
def webhooks(sandbox: SandboxServer) -> Iterator[sdk.WebhooksApi]:
    with client_of(sandbox) as client:
        yield sdk.WebhooksApi(client)
        client.rest_client.pool_manager.clear()


def registration(url: str = NOWHERE, description: str | None = None) -> WebhookCreate:
    return WebhookCreate(url=url, event_type=WebhookEventType.EXTRACT_COMPLETED, description=description)


def test_a_webhook_lives_from_creation_to_deletion(webhooks: sdk.WebhooksApi):
    created = webhooks.create_webhook_v1_webhooks_post(registration(description="news"))
    assert (created.url, created.description, created.is_active) == (NOWHERE, "news", True)
    assert created.event_type is WebhookEventType.EXTRACT_COMPLETED
    assert created.secret
    assert created.created_at == created.updated_at

    shown = webhooks.get_webhook_v1_webhooks_webhook_id_get(created.id)
    assert shown.to_dict() == {name: value for name, value in created.to_dict().items() if name != "secret"}

    changes = WebhookUpdate(
        url="http://127.0.0.1:2/", is_active=False, event_type=WebhookEventType.CRAWL_COMPLETED
    )
    changed = webhooks.update_webhook_v1_webhooks_webhook_id_patch(created.id, changes)
    assert (changed.url, changed.is_active, changed.description) == ("http://127.0.0.1:2/", False, "news")
    assert changed.event_type is WebhookEventType.CRAWL_COMPLETED
    assert changed.updated_at > changed.created_at
    cleared = webhooks.update_webhook_v1_webhooks_webhook_id_patch(
        created.id, WebhookUpdate(description=None)
    )
    assert (cleared.description, cleared.url) == (None, changed.url)

    rotated = webhooks.rotate_secret_v1_webhooks_webhook_id_rotate_secret_post(created.id)
    assert rotated.secret != created.secret

    webhooks.delete_webhook_v1_webhooks_webhook_id_delete(created.id)
    with pytest.raises(NotFoundException) as raised:
        webhooks.get_webhook_v1_webhooks_webhook_id_get(created.id)
    assert isinstance(raised.value.data, ErrorResponse)


def test_the_listing_of_webhooks_has_pages(webhooks: sdk.WebhooksApi):
    ids = [webhooks.create_webhook_v1_webhooks_post(registration()).id for _ in range(5)]
    every = webhooks.list_webhooks_v1_webhooks_get()
    assert [webhook.id for webhook in every.items] == ids
    last = webhooks.list_webhooks_v1_webhooks_get(page=3, page_size=2)
    assert ([one.id for one in last.items], last.page, last.page_size, last.page_count) == (ids[4:], 3, 2, 3)


def test_the_delivery_log_has_its_model(webhooks: sdk.WebhooksApi, caller: Caller, receiver: Receiver):
    receiver.statuses = [500]
    webhook = webhooks.create_webhook_v1_webhooks_post(registration(receiver.url))
    job_id = caller.finished("pages/1")
    caller.settled(str(webhook.id), 2)
    listing = webhooks.list_deliveries_v1_webhooks_webhook_id_deliveries_get
    log = listing(webhook.id, page=1, page_size=100)
    second, first = log.items
    assert (log.page, log.page_size, log.page_count) == (1, 100, 1)
    assert (first.attempt_number, first.status, first.http_status, first.delivered_at) == (
        1,
        "failed",
        500,
        None,
    )
    assert (second.attempt_number, second.status, second.http_status) == (2, "success", 200)
    assert second.delivered_at is not None
    assert second.delivered_at >= second.created_at >= first.created_at
    assert {one.job_id for one in log.items} == {UUID(job_id)}
    assert {one.event_type for one in log.items} == {WebhookEventType.EXTRACT_COMPLETED}
    assert listing(webhook.id, status="failed").items == [first]


def test_refusals_have_the_error_models(webhooks: sdk.WebhooksApi, caller: Caller):
    for _ in range(10):
        webhook = webhooks.create_webhook_v1_webhooks_post(registration())
    for refused in (
        lambda: webhooks.create_webhook_v1_webhooks_post(registration()),
        lambda: webhooks.create_webhook_v1_webhooks_post(registration("no address")),
        lambda: webhooks.update_webhook_v1_webhooks_webhook_id_patch(webhook.id, WebhookUpdate(url="-")),
    ):
        with pytest.raises(UnprocessableEntityException) as raised:
            refused()
        assert isinstance(raised.value.data, ErrorResponse)
    listing = webhooks.list_deliveries_v1_webhooks_webhook_id_deliveries_get
    with pytest.raises(UnprocessableEntityException) as beyond:
        listing(webhook.id, page_size=0)
    assert isinstance(beyond.value.data, HTTPValidationError)
    for unknown in (
        lambda: listing(uuid4()),
        lambda: webhooks.rotate_secret_v1_webhooks_webhook_id_rotate_secret_post(uuid4()),
        lambda: webhooks.delete_webhook_v1_webhooks_webhook_id_delete(uuid4()),
        lambda: webhooks.update_webhook_v1_webhooks_webhook_id_patch(uuid4(), WebhookUpdate(is_active=True)),
    ):
        with pytest.raises(NotFoundException) as missing:
            unknown()
        assert isinstance(missing.value.data, ErrorResponse)
    caller.sandbox.set_faults(unauthorized=1, webhook_500=1)
    with pytest.raises(UnauthorizedException) as raised_401:
        webhooks.list_webhooks_v1_webhooks_get()
    assert isinstance(raised_401.value.data, ErrorResponse)
    with pytest.raises(ServiceException) as raised_500:
        webhooks.list_webhooks_v1_webhooks_get()
    assert isinstance(raised_500.value.data, ErrorResponse)


def test_a_service_without_webhooks_is_not_found_by_every_call():
    with SandboxServer(SandboxConfig(webhooks_offered=False)) as sandbox, client_of(sandbox) as client:
        webhooks = sdk.WebhooksApi(client)
        for call in (
            lambda: webhooks.create_webhook_v1_webhooks_post(registration()),
            webhooks.list_webhooks_v1_webhooks_get,
            lambda: webhooks.rotate_secret_v1_webhooks_webhook_id_rotate_secret_post(uuid4()),
        ):
            with pytest.raises(NotFoundException) as raised:
                call()
            assert '"code":"NOT_FOUND"' in str(raised.value.body)
        client.rest_client.pool_manager.clear()
