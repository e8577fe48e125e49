"""Whatever the receiver's own OpenAPI document allows or forbids: no 5xx, and no row without a valid signature."""

import json
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import Case, GenerationMode
from schemathesis.checks import not_a_server_error

from scraper_pipeline_tests.integration.receiver.receiving import (
    PATH,
    ReceiverProcess,
    envelope,
    new_job_id,
    sign,
)

WAYS_IN = ("POST", PATH), ("GET", "/healthz"), ("GET", "/readyz"), ("GET", "/metrics")
bounded = settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    phases=[Phase.generate],  # each example is a request to a process that remembers: shrinking proves little
)
in_both_modes = pytest.mark.parametrize("mode", list(GenerationMode))


@pytest.fixture(scope="session")
def schema(receiver: ReceiverProcess) -> Any:
    return schemathesis.openapi.from_url(f"http://127.0.0.1:{receiver.port}/openapi.json")


def cases(schema: Any, mode: GenerationMode, *ways_in: tuple[str, str]) -> st.SearchStrategy[Case[Any]]:
    return st.one_of([schema[path][method].as_strategy(generation_mode=mode) for method, path in ways_in])


def sign_request(request: Any) -> Any:
    """Signs a request of the library that schemathesis sends with, once its body has its bytes."""
    body = request.body or b""
    request.headers["X-Webhook-Signature"] = sign(body if isinstance(body, bytes) else body.encode())
    return request


@in_both_modes
@bounded
@given(st.data())
def test_nothing_unsigned_is_a_5xx_or_leaves_a_row(
    receiver: ReceiverProcess, schema: Any, mode: GenerationMode, data: st.DataObject
) -> None:
    case = data.draw(cases(schema, mode, *WAYS_IN))
    answer = case.call()
    case.validate_response(answer, checks=[not_a_server_error])
    if case.path == PATH:
        assert 400 <= answer.status_code < 500


@in_both_modes
@bounded
@given(st.data())
def test_what_is_signed_is_kept_or_quarantined_and_never_a_5xx(
    receiver: ReceiverProcess, schema: Any, mode: GenerationMode, data: st.DataObject
) -> None:
    case = data.draw(cases(schema, mode, ("POST", PATH)))
    answer = case.call(auth=sign_request)
    case.validate_response(answer, checks=[not_a_server_error])
    if answer.request.method == "POST":
        assert answer.status_code == 200


def test_the_document_tells_every_answer_of_an_ordinary_delivery(
    receiver: ReceiverProcess, schema: Any
) -> None:
    body = json.loads(envelope(new_job_id()))
    case = schema[PATH]["POST"].Case(body=body, media_type="application/json")
    case.call_and_validate()
    case.call_and_validate(auth=sign_request)


@pytest.fixture(autouse=True)
def _no_row_without_a_signature(receiver: ReceiverProcess, request: pytest.FixtureRequest):
    before = receiver.jobs(), receiver.quarantined()
    yield
    if "unsigned" in request.node.name:
        assert (receiver.jobs(), receiver.quarantined()) == before
    assert "Traceback" not in receiver.log()
