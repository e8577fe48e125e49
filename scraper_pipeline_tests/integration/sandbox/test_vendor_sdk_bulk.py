"""The vendor's own SDK finds in the sandbox's batches and crawls what it expects of the service's."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from uuid import UUID

import geonode_scraper_sdk as sdk
import pytest
from geonode_scraper_sdk import BatchRequest, CrawlRequest, JobStatus, OutputFormat, ProxySettings, WaitConfig
from geonode_scraper_sdk.exceptions import (
    ApiException,
    ConflictException,
    NotFoundException,
    ServiceException,
    UnprocessableEntityException,
)

from scraper_pipeline.sandbox import SandboxServer
from scraper_pipeline_tests.integration.sandbox.conftest import Caller

NOBODY = UUID("00000000-0000-4000-8000-000000000000")


@pytest.fixture
def client(sandbox: SandboxServer) -> Iterator[sdk.ApiClient]:
    configuration = sdk.Configuration(host=sandbox.url, api_key={"ApiKeyAuth": "any"}, retries=False)
    with sdk.ApiClient(configuration) as client:
        yield client
        client.rest_client.pool_manager.clear()


@pytest.fixture
def batches(client: sdk.ApiClient) -> sdk.BatchApi:
    return sdk.BatchApi(client)


@pytest.fixture
def crawls(client: sdk.ApiClient) -> sdk.CrawlApi:
    return sdk.CrawlApi(client)


def test_a_batch_runs_from_acceptance_to_its_results(batches: sdk.BatchApi, caller: Caller):
    paths = ("pages/1", "broken/1", "pages/2", "empty", "cancelled/1")
    wanted = BatchRequest(
        urls=["no address", *map(caller.page, paths)],
        formats=[OutputFormat.MARKDOWN, OutputFormat.HTML],
        headers={"Accept-Language": "fr"},
        proxy=ProxySettings.model_validate({"country": "FR", "type": "mix"}),
        wait_config=WaitConfig.model_validate({"wait_until": "load"}),
    )
    accepted = batches.create_batch_v1_batch_post(wanted)
    assert (accepted.accepted_urls, accepted.invalid_urls) == (5, ["no address"])
    assert accepted.status_url == f"{caller.sandbox.url}/v1/batch/{accepted.job_id}"
    caller.wait_for_all(str(accepted.job_id))

    batch = batches.get_batch_status_v1_batch_job_id_get(accepted.job_id)
    counts = (batch.total_urls, batch.completed_urls, batch.failed_urls, batch.cancelled_urls)
    assert (batch.status, counts, batch.pending_urls) == (JobStatus.COMPLETED, (5, 3, 1, 1), 0)
    assert batch.invalid_urls == ["no address"]
    assert batch.batch_config.proxy.country == "FR"
    assert batch.batch_config.headers == {"Accept-Language": "fr"}
    assert batch.token_summary.to_dict() == {"tokens_charged_total": 3, "tokens_reserved": 0}
    assert batch.completed_at is not None
    assert batch.results is not None
    assert [(item.input_index, item.url, item.status, item.error_code) for item in batch.results] == [
        (1, caller.page("pages/1"), "completed", None),
        (2, caller.page("broken/1"), "failed", "PERMANENT_BLOCK"),
        (3, caller.page("pages/2"), "completed", None),
        (4, caller.page("empty"), "completed", None),
        (5, caller.page("cancelled/1"), "cancelled", "CANCELLED"),
    ]
    first, broken, *_ = batch.results
    assert first.data is not None
    assert first.data.markdown
    assert first.data.html
    assert first.metadata is not None
    assert (first.metadata.http_status, first.metadata.tokens_charged) == (200, 1)
    assert (broken.data, broken.metadata and broken.metadata.tokens_charged) == (None, 0)


def test_the_statistics_count_the_pages_of_batches_and_crawls(client: sdk.ApiClient, caller: Caller):
    caller.wait_for_all(caller.batch("pages/1", "broken/1", "pages/2"))
    caller.wait_for_all(caller.crawl("pages/1", depth=1))
    now = datetime.now(UTC)
    statistics_of = sdk.StatisticsApi(client).get_statistics_v1_statistics_get
    statistics = statistics_of(start_date=now - timedelta(hours=1), end_date=now + timedelta(minutes=1))
    assert (statistics.extraction_count, statistics.period_tokens_used) == (4, 3)
    assert [day.tokens_used for day in statistics.tokens_used or ()] == [3]
    earlier = statistics_of(start_date=now - timedelta(hours=2), end_date=now - timedelta(hours=1))
    assert (earlier.extraction_count, earlier.tokens_used) == (0, [])


def test_results_come_ten_to_a_page_unless_asked_otherwise(batches: sdk.BatchApi, caller: Caller):
    job_id = caller.batch(*(f"pages/{number}" for number in range(12)))
    caller.wait_for_all(job_id)

    def shown(**query: int) -> list[int]:
        results = batches.get_batch_status_v1_batch_job_id_get(UUID(job_id), **query).results  # type: ignore[arg-type]
        return [item.input_index for item in results or ()]

    assert shown() == list(range(10))
    assert shown(page=2) == [10, 11]
    assert shown(page=3) == []
    assert shown(page=3, page_size=5) == [10, 11]
    assert shown(page_size=50) == list(range(12))
    assert caller.look("batch", job_id, page_size=51).status_code == 422


def test_a_running_batch_is_cancelled_once(batches: sdk.BatchApi, caller: Caller):
    caller.sandbox.set_faults(
        late_job={"seconds": 600, "url_contains": "pages"}, never_finish={"url_contains": "code"}
    )
    job_id = caller.batch("pages/1", "pages/2", "code")
    cancelled = batches.cancel_batch_v1_batch_job_id_delete(UUID(job_id))
    assert (str(cancelled.job_id), cancelled.status, cancelled.in_flight_urls) == (
        job_id,
        JobStatus.CANCELLED,
        1,
    )
    draining = batches.get_batch_status_v1_batch_job_id_get(UUID(job_id))
    assert (draining.status, draining.completed_at) == (JobStatus.CANCELLED, None)
    assert [item.status for item in draining.results or ()] == ["cancelled", "cancelled", "processing"]
    with pytest.raises(ConflictException):
        batches.cancel_batch_v1_batch_job_id_delete(UUID(job_id))

    caller.sandbox.finish_job(job_id)
    assert caller.wait_for_all(job_id)["status"] == "cancelled"
    assert [item["charged"] for item in caller.true_items(job_id)] == [0, 0, 1]


def test_the_listing_of_batches_takes_every_filter_and_names_no_url(batches: sdk.BatchApi, caller: Caller):
    start = datetime.now(UTC)
    first = caller.batch("pages/1", "broken/1")
    caller.wait_for_all(first)
    end = datetime.now(UTC)
    caller.sandbox.set_faults(late_job={"seconds": 600})
    second = caller.batch("pages/2")
    listing = batches.list_batch_jobs_v1_batch_jobs_get

    def ids(**filters: object) -> list[str]:
        return [str(job.job_id) for job in listing(**filters).jobs]  # type: ignore[arg-type]

    assert ids() == [second, first]
    assert ids(status=JobStatus.COMPLETED) == [first]
    assert ids(start_date=end) == [second]
    assert ids(start_date=start, end_date=end) == [first]
    assert ids(end_date=start - timedelta(seconds=1)) == []
    page = listing(page=2, page_size=1)
    assert (page.page, page.page_size, page.page_count) == (2, 1, 2)
    (line,) = page.jobs
    assert (line.accepted_urls, line.completed_urls, line.failed_urls) == (2, 1, 1)
    assert line.config.formats == [OutputFormat.MARKDOWN]
    assert "/site/" not in caller.http.get("/v1/batch/jobs").text


def test_a_crawl_follows_links_to_its_depth_and_limit(crawls: sdk.CrawlApi, caller: Caller):
    wanted = CrawlRequest(
        url=caller.page("pages/1"), depth=3, limit=5, formats=[OutputFormat.MARKDOWN], same_domain_only=True
    )
    accepted = crawls.create_crawl_v1_crawl_post(wanted)
    assert (accepted.url, accepted.estimated_pages) == (caller.page("pages/1"), 5)
    assert accepted.status_url == f"{caller.sandbox.url}/v1/crawl/{accepted.job_id}"
    caller.wait_for_all(str(accepted.job_id))

    crawl = crawls.get_crawl_status_v1_crawl_job_id_get(accepted.job_id, page_size=50)
    assert (crawl.status, crawl.url, crawl.total_pages) == (
        JobStatus.COMPLETED,
        caller.page("pages/1"),
        5,
    )
    assert crawl.crawl_config.same_domain_only
    assert crawl.results is not None
    seed, *others = crawl.results
    assert (seed.url, seed.parent_url, seed.depth) == (caller.page("pages/1"), None, 1)
    assert seed.links is not None
    assert caller.page("pages/2") in seed.links
    assert {item.depth for item in others} <= {2, 3}
    urls = [item.url for item in crawl.results]
    assert len(set(urls)) == 5
    for item in others:
        assert item.parent_url in urls
    assert crawl.token_summary.tokens_charged_total == crawl.completed_pages


def test_crawls_are_cancelled_and_listed(crawls: sdk.CrawlApi, caller: Caller):
    caller.sandbox.set_faults(late_job={"seconds": 600})
    job_id = caller.crawl("pages/1")
    cancelled = crawls.cancel_crawl_v1_crawl_job_id_delete(UUID(job_id))
    assert (str(cancelled.job_id), cancelled.in_flight_pages) == (job_id, 0)
    (line,) = crawls.list_crawl_jobs_v1_crawl_jobs_get().jobs
    assert (str(line.job_id), line.status, line.url) == (job_id, JobStatus.CANCELLED, caller.page("pages/1"))
    with pytest.raises(ConflictException):
        crawls.cancel_crawl_v1_crawl_job_id_delete(UUID(job_id))


def test_what_there_is_not_is_not_found(batches: sdk.BatchApi, crawls: sdk.CrawlApi):
    for call in (
        batches.get_batch_status_v1_batch_job_id_get,
        batches.cancel_batch_v1_batch_job_id_delete,
        crawls.get_crawl_status_v1_crawl_job_id_get,
        crawls.cancel_crawl_v1_crawl_job_id_delete,
    ):
        with pytest.raises(NotFoundException):
            call(NOBODY)


@pytest.mark.parametrize(
    "urls", [["no address"], ["http://127.0.0.1/", "ftp://127.0.0.1/"]], ids=["none is valid", "not ignored"]
)
def test_a_batch_with_invalid_urls_is_refused_where_they_are_not_ignored(
    batches: sdk.BatchApi, caller: Caller, urls: list[str]
):
    with pytest.raises(UnprocessableEntityException):
        batches.create_batch_v1_batch_post(BatchRequest(urls=urls, ignore_invalid_urls=False))
    assert caller.sandbox.truth()["batches"] == []


@pytest.mark.parametrize(
    ("faults", "kind", "status"),
    [
        ({"payment_required": 1}, ApiException, 402),
        ({"balance": 1}, ApiException, 402),
        ({"rate_limit_429": 1}, ApiException, 429),
        ({"post_500_before": {"count": 1, "status": 503}}, ServiceException, 503),
    ],
)
def test_a_refused_batch_leaves_nothing_behind(
    batches: sdk.BatchApi,
    caller: Caller,
    faults: dict[str, object],
    kind: type[ApiException],
    status: int,
):
    caller.sandbox.set_faults(**faults)
    urls = [caller.page("pages/1"), caller.page("pages/2")]
    with pytest.raises(kind) as raised:
        batches.create_batch_v1_batch_post(BatchRequest(urls=urls))
    assert raised.value.status == status
    assert caller.sandbox.truth()["batches"] == []
