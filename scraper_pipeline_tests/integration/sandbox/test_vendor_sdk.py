"""The vendor's own SDK finds in the sandbox what it expects of the service."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from uuid import UUID

import geonode_scraper_sdk as sdk
import pytest
from geonode_scraper_sdk import (
    ErrorResponse,
    ExtractAsyncResponse,
    ExtractionErrorResponse,
    ExtractRequest,
    ExtractSyncResponse,
    HTTPValidationError,
    JobStatus,
    JobStatusResponse,
    OutputFormat,
    ProcessingMode,
    ProxySettings,
    WaitConfig,
)
from geonode_scraper_sdk.exceptions import (
    ApiException,
    NotFoundException,
    ServiceException,
    UnauthorizedException,
    UnprocessableEntityException,
)

from scraper_pipeline.sandbox import SandboxConfig, SandboxServer
from scraper_pipeline_tests.integration.sandbox.conftest import Caller


def client_of(sandbox: SandboxServer, key: str = "any") -> sdk.ApiClient:
    configuration = sdk.Configuration(host=sandbox.url, api_key={"ApiKeyAuth": key}, retries=False)
    return sdk.ApiClient(configuration)


@pytest.fixture
def client(sandbox: SandboxServer) -> Iterator[sdk.ApiClient]:
    with client_of(sandbox) as client:
        yield client
        client.rest_client.pool_manager.clear()


@pytest.fixture
def extraction(client: sdk.ApiClient) -> sdk.ExtractionApi:
    return sdk.ExtractionApi(client)


def request(url: str, mode: ProcessingMode, *formats: OutputFormat) -> ExtractRequest:
    return ExtractRequest(url=url, processing_mode=mode, formats=list(formats or (OutputFormat.MARKDOWN,)))


def test_a_synchronous_extraction_brings_the_page(extraction: sdk.ExtractionApi, caller: Caller):
    wanted = ExtractRequest(
        url=caller.page("pages/3"),
        formats=[OutputFormat.MARKDOWN, OutputFormat.HTML],
        render_js=True,
        headers={"Accept-Language": "fr"},
        proxy=ProxySettings.model_validate({"country": "FR", "type": "mix"}),
        wait_config=WaitConfig.model_validate({"wait_until": "networkidle", "wait_timeout": 1000}),
        timeout=5000,
    )
    answer = extraction.extract_v1_extract_post(wanted)
    assert isinstance(answer, ExtractSyncResponse)
    assert answer.data.markdown is not None
    assert answer.data.markdown.startswith("# ")
    assert answer.data.html is not None
    assert answer.data.html.startswith("<!DOCTYPE html>")
    assert (answer.tokens_charged, answer.metadata.http_status) == (1, 200)
    assert answer.metadata.proxy is not None
    assert answer.metadata.proxy.country == "FR"


def test_without_formats_the_service_gives_html(extraction: sdk.ExtractionApi, caller: Caller):
    answer = extraction.extract_v1_extract_post(ExtractRequest(url=caller.page("pages/4")))
    assert isinstance(answer, ExtractSyncResponse)
    assert answer.data.html
    assert answer.data.markdown is None


def test_an_asynchronous_job_runs_from_queued_to_completed(extraction: sdk.ExtractionApi, caller: Caller):
    caller.sandbox.set_faults(never_finish=1)
    accepted = extraction.extract_v1_extract_post(request(caller.page("pages/5"), ProcessingMode.ASYNC))
    assert isinstance(accepted, ExtractAsyncResponse)
    assert accepted.status is JobStatus.QUEUED
    assert accepted.status_url == f"{caller.sandbox.url}/v1/extract/{accepted.job_id}"
    assert UUID(accepted.job_id)

    before = extraction.get_job_result_v1_extract_job_id_get(accepted.job_id)
    assert before.status in (JobStatus.QUEUED, JobStatus.PROCESSING)
    later = (before.completed_at, before.data, before.metadata, before.error, before.tokens_charged)
    assert later == (None,) * 5

    caller.sandbox.finish_job(accepted.job_id)
    caller.wait(accepted.job_id)
    after = extraction.get_job_result_v1_extract_job_id_get(accepted.job_id)
    assert isinstance(after, JobStatusResponse)
    assert (after.status, after.tokens_charged, after.error) == (JobStatus.COMPLETED, 1, None)
    assert after.data is not None
    assert after.data.markdown
    assert after.completed_at is not None
    assert after.created_at <= after.completed_at


def test_a_failed_job_carries_its_error(extraction: sdk.ExtractionApi, caller: Caller):
    after = extraction.get_job_result_v1_extract_job_id_get(caller.finished("broken/1"))
    assert (after.status, after.tokens_charged, after.data) == (JobStatus.FAILED, 0, None)
    assert after.error is not None
    assert (after.error.code.value, after.error.retryable) == ("PERMANENT_BLOCK", False)


def test_the_listing_takes_every_filter(extraction: sdk.ExtractionApi, caller: Caller):
    start = datetime.now(UTC)
    first = caller.finished("pages/1")
    second = caller.finished("broken/2", formats=["html"])
    end = datetime.now(UTC)
    third = caller.finished("pages/3")
    listing = extraction.list_jobs_v1_extract_jobs_get

    def ids(**filters: object) -> list[str]:
        return [str(job.job_id) for job in listing(**filters).jobs]  # type: ignore[arg-type]

    assert ids() == [third, second, first]
    assert ids(job_id=second) == [second]
    assert ids(url=caller.page("pages/3")) == [third]
    assert ids(status=JobStatus.FAILED) == [second]
    assert ids(output=OutputFormat.MARKDOWN) == [third, first]
    assert ids(start_date=end) == [third]
    assert ids(start_date=start, end_date=end) == [second, first]
    assert ids(end_date=start - timedelta(seconds=1)) == []
    page = listing(page=2, page_size=2)
    assert ([str(job.job_id) for job in page.jobs], page.page, page.page_size, page.page_count) == (
        [first],
        2,
        2,
        2,
    )
    assert page.is_capped is False
    assert page.jobs[0].output == [OutputFormat.MARKDOWN]
    assert page.jobs[0].execution_time is not None


def test_usage_health_and_statistics_have_their_models(client: sdk.ApiClient, caller: Caller):
    caller.sandbox.set_faults(never_finish={"url_contains": "pages/9"})
    caller.submit("pages/9")
    caller.finished("pages/1")
    caller.finished("broken/1")
    usage = sdk.UsageApi(client).get_concurrency_usage_v1_usage_concurrency_get()
    assert (usage.work_concurrency_in_use, usage.work_concurrency_limit) == (1, 100)
    assert sdk.SystemApi(client).health_check_health_get().status.value == "ok"
    statistics = sdk.StatisticsApi(client).get_statistics_v1_statistics_get()
    assert (statistics.extraction_count, statistics.success_rate, statistics.period_tokens_used) == (
        2,
        0.5,
        1,
    )
    assert statistics.requests is not None
    assert [(day.success_request_count, day.failed_request_count) for day in statistics.requests] == [(1, 1)]


def test_an_unavailable_service_says_so(client: sdk.ApiClient, sandbox: SandboxServer):
    sandbox.set_faults(unhealthy=1)
    with pytest.raises(ServiceException) as raised:
        sdk.SystemApi(client).health_check_health_get()
    assert raised.value.status == 503
    assert getattr(raised.value.data, "status", None) is sdk.HealthStatus.UNAVAILABLE


@pytest.mark.parametrize(
    ("faults", "kind", "status", "code"),
    [
        ({"payment_required": 1}, ApiException, 402, "PAYMENT_REQUIRED"),
        ({"rate_limit_429": 1}, ApiException, 429, "RATE_LIMITED"),
        ({"unauthorized": 1}, UnauthorizedException, 401, "UNAUTHORIZED"),
        ({"post_500_before": 1}, ServiceException, 500, "INTERNAL_ERROR"),
    ],
)
def test_refusals_have_the_error_model(
    extraction: sdk.ExtractionApi,
    caller: Caller,
    faults: dict[str, object],
    kind: type[ApiException],
    status: int,
    code: str,
):
    caller.sandbox.set_faults(**faults)
    with pytest.raises(kind) as raised:
        extraction.extract_v1_extract_post(request(caller.page("pages/1"), ProcessingMode.ASYNC))
    assert raised.value.status == status
    assert isinstance(raised.value.data, ErrorResponse)
    assert raised.value.data.code == code
    assert caller.sandbox.truth()["jobs"] == []


def test_an_unknown_job_is_not_found(extraction: sdk.ExtractionApi):
    with pytest.raises(NotFoundException) as raised:
        extraction.get_job_result_v1_extract_job_id_get("00000000-0000-4000-8000-000000000000")
    assert isinstance(raised.value.data, ErrorResponse)


def test_a_failed_synchronous_extraction_is_unprocessable(extraction: sdk.ExtractionApi, caller: Caller):
    with pytest.raises(UnprocessableEntityException) as raised:
        extraction.extract_v1_extract_post(request(caller.page("broken/1"), ProcessingMode.SYNC))
    assert isinstance(raised.value.data, ExtractionErrorResponse)
    assert raised.value.data.error.code.value == "PERMANENT_BLOCK"
    assert raised.value.data.tokens_charged == 0


def test_a_query_out_of_bounds_is_a_validation_error(extraction: sdk.ExtractionApi):
    with pytest.raises(UnprocessableEntityException) as raised:
        extraction.list_jobs_v1_extract_jobs_get(page_size=0)
    assert isinstance(raised.value.data, HTTPValidationError)
    assert raised.value.data.detail is not None
    assert [part.actual_instance for part in raised.value.data.detail[0].loc] == ["query", "page_size"]


def test_a_wrong_key_is_refused_where_a_key_is_set():
    with SandboxServer(SandboxConfig.model_validate({"api_key": "right"})) as sandbox:
        for key, is_right in (("wrong", False), ("right", True)):
            with client_of(sandbox, key) as client:
                usage = sdk.UsageApi(client)
                if is_right:
                    assert usage.get_concurrency_usage_v1_usage_concurrency_get().work_concurrency_in_use == 0
                else:
                    with pytest.raises(UnauthorizedException):
                        usage.get_concurrency_usage_v1_usage_concurrency_get()
                client.rest_client.pool_manager.clear()
