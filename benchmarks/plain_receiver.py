"""The receiver that one writes first, to compare with: FastAPI, sqlite3, one commit a request."""

import hashlib
import hmac
import json
import sqlite3
import sys

import uvicorn
from fastapi import FastAPI, HTTPException, Request


def create_app(database: str, secret: str) -> FastAPI:
    app = FastAPI()
    connection = sqlite3.connect(database)
    connection.execute(
        "CREATE TABLE IF NOT EXISTS processed_events ("
        "job_id TEXT PRIMARY KEY, event_type TEXT NOT NULL, delivery_id TEXT, "
        "received_at TEXT DEFAULT CURRENT_TIMESTAMP)"
    )
    connection.commit()

    @app.post("/webhooks/geonode")
    async def receive(request: Request) -> dict[str, str]:
        body = await request.body()
        expected = "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
        if not hmac.compare_digest(expected, request.headers.get("X-Webhook-Signature", "")):
            raise HTTPException(status_code=401, detail="invalid signature")
        event = json.loads(body)
        row = (event["data"]["job_id"], event["event"], event["delivery_id"])
        try:
            connection.execute(
                "INSERT INTO processed_events (job_id, event_type, delivery_id) VALUES (?, ?, ?)", row
            )
            connection.commit()
        except sqlite3.IntegrityError:
            return {"status": "duplicate"}
        return {"status": "accepted"}

    return app


if __name__ == "__main__":
    database, secret, port = sys.argv[1:]
    uvicorn.run(create_app(database, secret), port=int(port), log_level="warning", access_log=False)
