"""What the command says about options that it can't take."""

import socket

import pytest
from click.testing import CliRunner

from scraper_pipeline.sandbox.command import sandbox_command


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--faults", "{answer_lost"], "Invalid value for --faults: not JSON"),
        (["--faults", '{"answer_lots": 1}'], "there is no fault answer_lots; did you mean answer_lost?"),
        (["--faults", '{"x": 1}'], "there is no fault x; there are latency, cut_before, "),
        (["--min-delay", "3", "--max-delay", "1"], "min_delay must not exceed max_delay"),
        (["--webhook-retries", "1,soon"], "webhook_retry_schedule.1: Input should be a valid number"),
        (["--webhook-signature", "md5"], "Invalid value for '--webhook-signature'"),
    ],
)
def test_a_wrong_option_is_named_in_one_line(options: list[str], said: str):
    result = CliRunner().invoke(sandbox_command, options)
    assert result.exit_code == 2
    assert said in result.output


def test_a_taken_port_is_told_with_a_way_out():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = CliRunner().invoke(sandbox_command, ["--port", str(port)])
    assert result.exit_code == 1
    assert f"Cannot listen on 127.0.0.1:{port}" in result.output
    assert "--port" in result.output
