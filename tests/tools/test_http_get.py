import asyncio
import gzip

import httpx2
import pytest

from tests.tools.doubles import SECRET, refuse_all, streamed
from tools.http_get import MAX_BODY_BYTES, get_text
from tools.ports import PortError

URL = "https://crm.example.com/lookup?phone=%2B12025550123"


def client(answer):
    return httpx2.AsyncClient(transport=httpx2.MockTransport(answer), follow_redirects=True)


async def get(answer, **more):
    async with client(answer) as http:
        return await get_text(http, URL, {"X-Auth": SECRET}, **more)


async def test_the_answer_s_status_and_text_come_back():
    got = await get(lambda _: streamed(201, "Анна"))

    assert (got.status, got.body, got.truncated) == (201, "Анна", False)


@pytest.mark.parametrize(
    ("size", "truncated"), [(MAX_BODY_BYTES - 1, False), (MAX_BODY_BYTES, False), (MAX_BODY_BYTES + 1, True)]
)
async def test_a_body_is_cut_at_one_mebibyte(size, truncated):
    got = await get(lambda _: streamed(200, b"x" * size))

    assert len(got.body) == min(size, MAX_BODY_BYTES)
    assert got.truncated is truncated


async def test_an_endless_body_is_left_once_the_limit_is_reached():
    sent = 0

    async def endless():
        nonlocal sent
        while True:
            sent += 1
            yield b"x" * 65_536

    got = await get(lambda _: httpx2.Response(200, content=endless()))

    assert got.truncated
    assert sent * 65_536 <= MAX_BODY_BYTES + 2 * 65_536


async def test_a_body_is_cut_between_characters_without_failing():
    got = await get(lambda _: streamed(200, "яя"), max_bytes=3)

    assert got.body == "я\ufffd"


async def test_an_unknown_charset_is_read_as_utf_8():
    headers = {"Content-Type": "text/plain; charset=martian"}
    got = await get(lambda _: streamed(200, "я", headers))

    assert got.body == "я"


async def test_an_answer_that_was_compressed_unasked_is_refused():
    def bomb(request):
        assert request.headers["Accept-Encoding"] == "identity"
        return httpx2.Response(
            200, content=gzip.compress(b"x" * 9_000_000), headers={"Content-Encoding": "gzip"}
        )

    with pytest.raises(PortError, match="compressed"):
        await get(bomb)


async def test_a_redirect_inside_the_origin_is_followed_with_its_headers():
    seen = []

    def answer(request):
        seen.append((request.url.path, request.headers.get("X-Auth")))
        if request.url.path == "/lookup":
            return httpx2.Response(302, headers={"Location": "/v2/lookup"})
        return streamed(200, "moved")

    got = await get(answer)

    assert got.body == "moved"
    assert seen == [("/lookup", SECRET), ("/v2/lookup", SECRET)]


@pytest.mark.parametrize(
    "location",
    [
        "https://evil.example/",
        "http://crm.example.com/",
        "https://crm.example.com:8443/",
        "//evil.example/x",
        "https://crm.example.com.evil.example/",
    ],
)
async def test_a_redirect_out_of_the_origin_is_not_followed(location):
    seen = []

    def answer(request):
        seen.append(request.url.host)
        return httpx2.Response(307, headers={"Location": location})

    with pytest.raises(PortError, match="another host"):
        await get(answer)
    assert seen == ["crm.example.com"]


async def test_redirects_in_a_circle_end():
    with pytest.raises(PortError, match="too many redirects"):
        await get(lambda _: httpx2.Response(302, headers={"Location": URL}))


@pytest.mark.parametrize("url", ["https://[", "ftp://crm.example.com", "no url", "https://a b/"])
async def test_an_address_that_is_none_is_a_failure_like_any_other(url):
    async with httpx2.AsyncClient() as http:
        with pytest.raises(PortError, match="request failed"):
            await get_text(http, url, {})


async def test_a_failure_names_neither_the_address_nor_a_secret():
    async with httpx2.AsyncClient(transport=refuse_all()) as http:
        with pytest.raises(PortError) as failure:
            await get_text(http, URL, {"X-Auth": SECRET})

    assert str(failure.value) == "request failed: ConnectError"
    assert failure.value.__cause__ is None


@pytest.mark.parametrize("header", ["line\r\nX-Evil: 1", "nul\0"])
async def test_a_header_that_would_break_the_request_is_not_sent(header):
    received = []
    hung_up = asyncio.Event()

    async def serve(reader, writer):
        received.append(await reader.read())
        writer.close()
        await writer.wait_closed()
        hung_up.set()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        async with httpx2.AsyncClient() as http:
            with pytest.raises(PortError):
                await get_text(http, f"http://127.0.0.1:{port}/", {"X-Auth": header})
        await hung_up.wait()
    assert received == [b""]
