"""N concurrent SIP calls with RTP (PCMU, 20 ms) against a gateway on loopback.

A minimal SIP caller over UDP sets every call up (INVITE with SDP, 200, ACK) and ends it (BYE). Prints one
JSON object; the RTP headers of the returned stream give its loss by sequence number and its jitter
(RFC 3550).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import socket
import struct

import numpy as np
import uvloop

from tests.bench.load import drive, now, options
from tests.bench.signals import frames
from tests.bench.turns import percentiles
from tests.bench.usage import rss_mb

FRAMES = frames()
HOST = "127.0.0.1"
HEADER = struct.Struct("!BBHII")
QUIET_S = 0.120
COMPACT = {"v": "via", "f": "from", "t": "to", "i": "call-id", "m": "contact", "l": "content-length"}
ECHOED = ("via", "from", "to", "call-id", "cseq")


class Caller(asyncio.DatagramProtocol):
    """The RTP leg of one call. Receiving only stores; all analysis comes later."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.sent: list[float] = []
        self.packets: list[tuple[float, bytes]] = []
        self.closed_at: float | None = None
        self.ended_at = float("inf")
        self.remote: tuple[str, int] | None = None
        self._sequence = 1000 + index
        self._timestamp = 160 * index
        self._ssrc = 0x51000000 + index
        self._pieces: list[tuple[float, bytes]] | None = None

    def connection_made(self, transport: asyncio.DatagramTransport) -> None:
        self.transport = transport
        self.port = transport.get_extra_info("sockname")[1]

    def datagram_received(self, data: bytes, _address: tuple[str, int]) -> None:
        at = now()
        if at < self.ended_at:
            self.packets.append((at, data))

    def send_frame(self, index: int) -> None:
        self._sequence = (self._sequence + 1) & 0xFFFF
        self._timestamp = (self._timestamp + 160) & 0xFFFFFFFF
        header = HEADER.pack(0x80, 0, self._sequence, self._timestamp, self._ssrc)
        self.sent.append(now())
        self.transport.sendto(header + FRAMES[index], self.remote)

    def media(self) -> list[tuple[int, float, int, bool, bytes]]:
        """Return PCMU packets as (sequence unwrapped, arrival, timestamp, marker, audio)."""
        rows, last = [], None
        for at, data in self.packets:
            if len(data) <= HEADER.size or data[1] & 0x7F:
                continue
            first, second, sequence, timestamp, _ = HEADER.unpack_from(data)
            if last is not None:
                sequence = last + ((sequence - last + 0x8000 & 0xFFFF) - 0x8000)
            last = sequence if last is None else max(sequence, last)
            rows.append(
                (sequence, at, timestamp, bool(second & 0x80), data[HEADER.size + 4 * (first & 15) :])
            )
        return rows

    def pieces(self) -> list[tuple[float, bytes]]:
        """Return the audible audio in sequence order."""
        if self._pieces is None:
            rows = sorted(self.media(), key=lambda row: row[0])
            self._pieces = [(at, audio) for _, at, _, _, audio in rows if audio.strip(b"\xff\x7f")]
        return self._pieces

    def stops(self, since: float, until: float) -> float | None:
        """Return when the answer fell silent for 120 ms; ``since`` if it was silent anyway."""
        last = since
        for at, _ in self.pieces():
            if since <= at < until + 0.5:
                if at - last > QUIET_S:
                    break
                last = at
        return last if last < until - 0.1 else None

    def stream(self) -> tuple[int, int, float]:
        """Return packets expected by sequence number, packets received, and the jitter in seconds."""
        rows = self.media()
        if len(rows) < 2:
            return 0, 0, float("nan")
        jitter, before = 0.0, None
        for _, at, timestamp, marker, _ in rows:
            transit = at - timestamp / 8000
            if before is not None and not marker:
                jitter += (abs(transit - before) - jitter) / 16
            before = transit
        numbers = np.array([row[0] for row in rows])
        return int(numbers.max() - numbers.min() + 1), int(np.unique(numbers).size), jitter


class Call:
    """One dialog."""

    def __init__(self, identity: str, gateway: tuple[str, int], user: str) -> None:
        self.identity = identity
        self.gateway = gateway
        self.target = self.to = f"sip:{user}@{gateway[0]}:{gateway[1]}"
        self.tag = ""


class Sip(asyncio.DatagramProtocol):
    """Just enough SIP (RFC 3261) over UDP to place and end calls; one socket for all of them."""

    def __init__(self) -> None:
        self._waiting: dict[tuple[str, str], asyncio.Future] = {}

    def connection_made(self, transport: asyncio.DatagramTransport) -> None:
        self.transport = transport
        self.port = transport.get_extra_info("sockname")[1]

    def datagram_received(self, data: bytes, address: tuple[str, int]) -> None:
        head, _, body = data.decode("utf-8", "replace").partition("\r\n\r\n")
        first, *lines = head.split("\r\n")
        names = [line.partition(":")[0].strip().lower() for line in lines]
        names = [COMPACT.get(name, name) for name in names]
        if not first.startswith("SIP/2.0"):
            if not first.startswith("ACK "):  # a BYE or OPTIONS of the gateway: say yes
                kept = [line for name, line in zip(names, lines, strict=True) if name in ECHOED]
                answer = "\r\n".join(["SIP/2.0 200 OK", *kept, "Content-Length: 0", "", ""])
                self.transport.sendto(answer.encode(), address)
            return
        fields: dict[str, str] = {}
        for name, line in zip(names, lines, strict=True):
            fields.setdefault(name, line.partition(":")[2].strip())
        status = int(first.split(" ")[1])
        future = self._waiting.get((fields.get("call-id", ""), fields.get("cseq", " ").split()[-1]))
        if status >= 200 and future is not None and not future.done():
            future.set_result((status, fields, body))

    async def invite(self, call: Call, caller: Caller) -> None:
        """Set one call up and tell its RTP leg where to send."""
        sdp = "\r\n".join(
            ["v=0", f"o=- {caller.index + 1} 1 IN IP4 {HOST}", "s=-", f"c=IN IP4 {HOST}", "t=0 0",
             f"m=audio {caller.port} RTP/AVP 0 101", "a=rtpmap:0 PCMU/8000",
             "a=rtpmap:101 telephone-event/8000", "a=fmtp:101 0-15", "a=ptime:20", "a=sendrecv", ""]
        )  # fmt: skip
        status, fields, body = await self.transact("INVITE", call, 1, sdp)
        if tag := re.search(r"tag=([^;\s>]+)", fields.get("to", "")):
            call.tag = tag[1]
        if contact := re.search(r"<([^>]+)>", fields.get("contact", "")):
            call.target = contact[1]
        self.transport.sendto(self._request("ACK", call, 1), call.gateway)
        if status != 200:
            raise RuntimeError(f"INVITE {caller.index + 1} was answered with {status}")
        caller.remote = (HOST, int(re.search(r"^m=audio (\d+) ", body, re.M)[1]))

    async def transact(
        self, method: str, call: Call, cseq: int, body: str = ""
    ) -> tuple[int, dict[str, str], str]:
        future = asyncio.get_running_loop().create_future()
        self._waiting[f"{call.identity}@load", method] = future
        packet, wait = self._request(method, call, cseq, body), 0.5
        for _ in range(6):
            self.transport.sendto(packet, call.gateway)
            try:
                async with asyncio.timeout(wait):
                    return await asyncio.shield(future)
            except TimeoutError:
                wait *= 2
        raise RuntimeError(f"{method}: no final answer")

    def _request(self, method: str, call: Call, cseq: int, body: str = "") -> bytes:
        here = f"{HOST}:{self.port}"
        lines = [
            f"{method} {call.target} SIP/2.0",
            f"Via: SIP/2.0/UDP {here};branch=z9hG4bK{call.identity}{method}{cseq};rport",
            "Max-Forwards: 70",
            f"From: <sip:load@{here}>;tag=f{call.identity}",
            f"To: <{call.to}>" + (f";tag={call.tag}" if call.tag else ""),
            f"Call-ID: {call.identity}@load",
            f"CSeq: {cseq} {method}",
            f"Contact: <sip:load@{here}>",
            "Allow: INVITE, ACK, BYE, CANCEL",
            *(["Content-Type: application/sdp"] if body else []),
            f"Content-Length: {len(body)}",
        ]
        return ("\r\n".join(lines) + "\r\n\r\n" + body).encode()


async def run(given: argparse.Namespace) -> dict[str, object]:
    loop = asyncio.get_running_loop()
    idle_rss = rss_mb(given.server_pid)
    callers: list[Caller] = []
    calls: list[Call] = []
    _, sip = await loop.create_datagram_endpoint(Sip, local_addr=(HOST, 0))
    started = now()
    for index in range(given.n):
        transport, caller = await loop.create_datagram_endpoint(
            lambda index=index: Caller(index), local_addr=(HOST, 0)
        )
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        call = Call(f"{index:05d}{sip.port}", (HOST, given.port), given.user)
        await sip.invite(call, caller)
        callers.append(caller)
        calls.append(call)
        await asyncio.sleep(max(0.0, started + (index + 1) / given.ramp - now()))
    result = await drive(callers, given, idle_rss)
    result["bye_unanswered"] = await hang_up(sip, calls)
    streams = [caller.stream() for caller in callers]
    expected, received = sum(stream[0] for stream in streams), sum(stream[1] for stream in streams)
    result["rtp"] = {
        "expected": expected,
        "received": received,
        "lost_pct": round(100 * (1 - received / max(expected, 1)), 3),
        "jitter_ms": percentiles([stream[2] for stream in streams]),
    }
    return result


async def hang_up(sip: Sip, calls: list[Call]) -> int:
    """End every call; return how many BYEs had no answer."""
    unanswered = 0
    for call in calls:
        try:
            await sip.transact("BYE", call, 2)
        except RuntimeError:
            unanswered += 1
    return unanswered


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--port", type=int, required=True, help="the gateway's SIP over UDP, on loopback")
    parser.add_argument("--user", default="bench", help="user part of the dialled URI")
    print(json.dumps(uvloop.run(run(parser.parse_args()))))


if __name__ == "__main__":
    main()
