import httpx2
import pytest
from prometheus_client.parser import text_string_to_metric_families

from gateway.telemetry.metrics import Metrics
from gateway.web.app import create_app


class Probe:
    def __init__(self):
        self.reasons: list[str] = []

    def unready(self) -> list[str]:
        return self.reasons

    def providers(self) -> dict[str, str]:
        return {"openai": "open"}

    def trunks(self) -> list[dict[str, object]]:
        return [{"name": "office", "calls": 2}]


@pytest.fixture
def probe():
    return Probe()


@pytest.fixture
def metrics():
    return Metrics()


@pytest.fixture
async def client(probe, metrics):
    transport = httpx2.ASGITransport(create_app(probe, metrics))
    async with httpx2.AsyncClient(transport=transport, base_url="http://gateway") as client:
        yield client


async def test_a_running_loop_is_alive_even_while_draining(client, probe):
    probe.reasons = ["draining"]
    answer = await client.get("/healthz")

    assert (answer.status_code, answer.json()) == (200, {"status": "alive"})


async def test_ready_means_that_a_call_may_come(client):
    answer = await client.get("/readyz")

    assert (answer.status_code, answer.json()) == (
        200,
        {"status": "ready", "providers": {"openai": "open"}},
    )


@pytest.mark.parametrize("reasons", [["starting"], ["draining"], ["starting", "no provider"]])
async def test_unready_is_503_with_every_reason(client, probe, reasons):
    probe.reasons = reasons
    answer = await client.get("/readyz")

    assert (answer.status_code, answer.json()) == (503, {"status": "unready", "reasons": reasons})


async def test_the_trunks_are_shown_as_the_gateway_knows_them(client):
    answer = await client.get("/trunks")

    assert (answer.status_code, answer.json()) == (200, {"trunks": [{"name": "office", "calls": 2}]})


async def test_metrics_are_in_prometheus_format(client, metrics):
    metrics.barged_in()
    answer = await client.get("/metrics")

    assert answer.headers["content-type"].startswith("text/plain; version=")
    families = {family.name: family for family in text_string_to_metric_families(answer.text)}
    assert families["trunkline_barge_ins"].samples[0].value == 1


@pytest.mark.parametrize("path", ["/", "/docs", "/redoc", "/openapi.json", "/metrics/x"])
async def test_there_is_nothing_else(client, path):
    assert (await client.get(path)).status_code == 404


async def test_health_is_only_read(client):
    assert (await client.post("/healthz")).status_code == 405
