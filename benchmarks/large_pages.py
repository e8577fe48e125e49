"""A service of batches whose pages are all large and ready at once: what it costs to serve them hides nothing.

`python -m benchmarks.large_pages BYTES ADDRESS_FILE` writes where it listens, and serves /v1/batch.
"""

import socket
import sys
import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import orjson
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

_WORDS = [f"word{number:x}" for number in range(5000)]
_PREPARED = 16


@dataclass
class LargePages:
    """Batches by id, each ended as soon as it was made."""

    size: int
    batches: dict[str, list[str]] = field(default_factory=dict)
    pages: list[bytes] = field(default_factory=list)

    def __post_init__(self) -> None:
        chance = Random(1)
        for _ in range(_PREPARED):
            text = " ".join(chance.choices(_WORDS, k=self.size // 8))
            self.pages.append(orjson.dumps({"markdown": text[: self.size], "html": None}))

    async def submit(self, request: Request) -> Response:
        job_id = str(uuid.uuid4())
        self.batches[job_id] = orjson.loads(await request.body())["urls"]
        return _json(
            {
                "job_id": job_id,
                "status": "queued",
                "status_url": str(request.url),
                "accepted_urls": len(self.batches[job_id]),
                "invalid_urls": [],
            },
            202,
        )

    async def get(self, request: Request) -> Response:
        job_id = request.path_params["job_id"]
        urls = self.batches[job_id]
        page, size = (int(request.query_params.get(name, "1")) for name in ("page", "page_size"))
        first = (page - 1) * size
        results = [
            b'{"input_index":%d,"url":%b,"status":"completed","error_code":null,"error_message":null,"data":%b,'
            b'"metadata":{"http_status":200,"duration_ms":5,"tokens_charged":1}}'
            % (index, orjson.dumps(urls[index]), self.pages[index % len(self.pages)])
            for index in range(first, min(first + size, len(urls)))
        ]
        body = orjson.dumps(_line(job_id, urls))[:-1] + b',"results":[' + b",".join(results) + b"]}"
        return Response(body, media_type="application/json")

    async def list_batches(self, request: Request) -> Response:
        jobs = [_line(job_id, urls) for job_id, urls in reversed(self.batches.items())]
        page = int(request.query_params.get("page", "1"))
        return _json(
            {
                "jobs": jobs[(page - 1) * 100 : page * 100],
                "page": page,
                "page_size": 100,
                "page_count": -(-len(jobs) // 100),
            }
        )

    def app(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/v1/batch", self.submit, methods=["POST"]),
                Route("/v1/batch/jobs", self.list_batches),
                Route("/v1/batch/{job_id}", self.get),
            ]
        )


def _line(job_id: str, urls: list[str]) -> dict[str, Any]:
    now = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
    return {
        "job_id": job_id,
        "status": "completed",
        "total_urls": len(urls),
        "accepted_urls": len(urls),
        "completed_urls": len(urls),
        "failed_urls": 0,
        "cancelled_urls": 0,
        "pending_urls": 0,
        "invalid_urls": [],
        "token_summary": {"tokens_charged_total": len(urls), "tokens_reserved": 0},
        "created_at": now,
        "completed_at": now,
    }


def _json(body: dict[str, Any], status: int = 200) -> Response:
    return Response(orjson.dumps(body), status, media_type="application/json")


def main() -> None:
    size, address = int(sys.argv[1]), Path(sys.argv[2])
    listener = socket.create_server(("127.0.0.1", 0))
    part = address.with_suffix(".part")
    part.write_text(f"http://127.0.0.1:{listener.getsockname()[1]}")
    part.replace(address)
    uvicorn.Server(uvicorn.Config(LargePages(size).app(), log_level="warning", access_log=False)).run(
        [listener]
    )


if __name__ == "__main__":
    main()
