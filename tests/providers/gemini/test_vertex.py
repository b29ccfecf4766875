"""Gemini in a project of Vertex AI: the address, the token of a service account, the model's long name."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from config.providers import GeminiSettings
from providers.errors import ProviderRejected, ProviderUnavailable
from providers.gemini import GeminiProvider
from tests.providers.gemini.hand_server import HandServer, setup

PROJECT, LOCATION = "my-project", "europe-west4"
PATH = "/ws/google.cloud.aiplatform.v1beta1.LlmBidiService/BidiGenerateContent"


class Tokens(BaseHTTPRequestHandler):
    """Gives one token to everybody, or refuses all."""

    status = 200

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        body = {"access_token": "ya29.test-token", "expires_in": 3600, "token_type": "Bearer"}
        said = json.dumps(body if self.status == 200 else {"error": "invalid_grant"}).encode()
        self.send_response(self.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    def log_message(self, *_arguments: object) -> None:
        pass


@pytest.fixture
def account(tmp_path, request):
    """The key file of a service account whose tokens come from a server of ours."""
    handler = type("Handler", (Tokens,), {"status": getattr(request, "param", 200)})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path = tmp_path / "account.json"
    path.write_text(
        json.dumps(
            {
                "type": "service_account",
                "project_id": PROJECT,
                "private_key_id": "1",
                "private_key": key.decode(),
                "client_email": "gateway@my-project.iam.gserviceaccount.com",
                "client_id": "1",
                "token_uri": f"http://127.0.0.1:{server.server_address[1]}/token",
            }
        )
    )
    yield path
    server.shutdown()
    thread.join()
    server.server_close()


def provider(server: HandServer, account) -> GeminiProvider:
    vertex = {"project": PROJECT, "location": LOCATION, "credentials": account}
    return GeminiProvider(
        GeminiSettings(
            vertex=vertex,
            model="gemini-live-2.5-flash-native-audio",
            base_url=f"https://127.0.0.1:{server.port}",
            ca_file=server.tls.authority,
        )
    )


async def test_the_token_stands_in_the_header_and_the_model_has_its_long_name(server, account) -> None:
    async with provider(server, account).connect(setup()):
        pass
    request, made = server.requests[0], server.setups[0]
    assert request.path == PATH
    assert request.headers["Authorization"] == "Bearer ya29.test-token"
    assert made["model"] == (
        f"projects/{PROJECT}/locations/{LOCATION}/publishers/google/models/gemini-live-2.5-flash-native-audio"
    )


async def test_fault_26_vertex_is_told_of_nothing_that_it_does_not_have(server, account) -> None:
    async with provider(server, account).connect(setup()):
        pass
    made = server.setups[0]
    assert "historyConfig" not in made
    assert "behavior" not in made["tools"][0]["functionDeclarations"][0]


@pytest.mark.parametrize("account", [400], indirect=True)
async def test_an_account_that_is_refused_is_not_tried_again(server, account) -> None:
    with pytest.raises(ProviderRejected) as caught:
        async with provider(server, account).connect(setup()):
            pass
    assert "no access token" in str(caught.value)
    assert server.requests == []


async def test_a_token_server_that_cannot_be_reached_is_no_refusal(server, account) -> None:
    content = json.loads(account.read_text())
    account.write_text(json.dumps(content | {"token_uri": "http://127.0.0.1:9/token"}))
    with pytest.raises(ProviderUnavailable):
        async with provider(server, account).connect(setup()):
            pass
