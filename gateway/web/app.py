"""The web application: health, readiness, trunks, metrics. Later issues mount API and console on it."""

from __future__ import annotations

from typing import Protocol

from fastapi import FastAPI, Response
from fastapi.responses import JSONResponse
from prometheus_client import CONTENT_TYPE_LATEST


class HealthProbe(Protocol):
    """What the web application asks of the gateway."""

    def unready(self) -> list[str]:
        """Say why no new call should be sent here (``starting``, ``draining``); empty when one may be."""
        ...

    def providers(self) -> dict[str, str]:
        """Return for each provider whether it is tried: ``closed``, ``half_open`` or ``open``."""
        ...

    def trunks(self) -> list[dict[str, object]]:
        """Return what is known of each trunk, as JSON; no secrets."""
        ...


class MetricsSource(Protocol):
    """Where ``/metrics`` comes from."""

    def render(self) -> bytes:
        """Return the text format of Prometheus."""
        ...


def create_app(probe: HealthProbe, metrics: MetricsSource) -> FastAPI:
    """
    Make the application.

    ``/healthz`` answers as long as the event loop runs: a supervisor restarts a process that does
    not. ``/readyz`` is 503 with reasons while no call should come: a load balancer looks elsewhere. Trunks
    that are down are no such reason: another process would not reach them either, and calls that do come
    are served; ``/trunks`` and ``/metrics`` tell of them. Nor are providers that are left alone for a while
    (``open``), which ``/readyz`` names as a detail.

    Args:
        probe: Asked for readiness.
        metrics: Asked for figures.
    """
    app = FastAPI(title="Trunkline", docs_url=None, redoc_url=None, openapi_url=None)

    # `async`, so that they run in the event loop: an answer shows that it runs, and the figures are its own.
    @app.get("/healthz")
    async def healthz() -> dict[str, str]:
        return {"status": "alive"}

    @app.get("/readyz")
    async def readyz() -> Response:
        reasons = probe.unready()
        if reasons:
            return JSONResponse({"status": "unready", "reasons": reasons}, status_code=503)
        return JSONResponse({"status": "ready", "providers": probe.providers()})

    @app.get("/trunks")
    async def trunks() -> Response:
        return JSONResponse({"trunks": probe.trunks()})

    @app.get("/metrics")
    async def figures() -> Response:
        return Response(metrics.render(), media_type=CONTENT_TYPE_LATEST)

    return app
