"""
The caller's SIP over UDP: one call out, with what a called party may ask of it.

Requests are sent again until they are answered (timer A/E of RFC 3261), requests of the gateway
are answered at once; every message is kept with its time.
"""

from __future__ import annotations

import asyncio
import secrets
import socket
import time
from dataclasses import dataclass

from deploy.demo.caller.message import Dialog, Headers, Message, parse, respond, tag_in, uri_in

T1 = 0.5
ALLOW = ("Allow", "INVITE, ACK, BYE, CANCEL, OPTIONS, REFER, NOTIFY")


class CallFailed(Exception):
    """The call cannot go on; the text is a sentence for the report."""


@dataclass(frozen=True, slots=True)
class Logged:
    """A message as it passed the socket; ``at`` is seconds since the epoch."""

    at: float
    sent: bool
    message: Message


class Phone:
    """
    One SIP phone for one call.

    Args:
        gateway: Where requests go.
        host: The local address; the port is chosen by the system.
        caller: Our number.
        called: The number to call.
        patience: How many seconds to wait for the final response to a request.
    """

    def __init__(
        self, gateway: tuple[str, int], *, host: str, caller: str, called: str, patience: float = 64 * T1
    ) -> None:
        self._gateway = gateway
        self._patience = patience
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        self._socket.bind((host, 0))
        self._waiting: dict[tuple[int, str], asyncio.Future[Message]] = {}
        self._ack: Message | None = None
        self.host: str = host
        self.port: int = self._socket.getsockname()[1]
        self.log: list[Logged] = []
        uri = f"sip:{called}@{gateway[0]}:{gateway[1]}"
        self.dialog = Dialog(
            call_id=f"{secrets.token_hex(8)}@{host}",
            local=f"<sip:{caller}@{host}:{self.port}>;tag={secrets.token_hex(4)}",
            remote=f"<{uri}>",
            target=uri,
            contact=f"sip:{caller}@{host}:{self.port}",
        )
        self.ended = asyncio.Event()
        """Set when the gateway's BYE came."""
        self.hung_up = False
        self.referred = asyncio.Event()
        self.refer: Message | None = None

    @property
    def is_over(self) -> bool:
        """Whether either side has hung up."""
        return self.ended.is_set() or self.hung_up

    def open(self) -> None:
        asyncio.get_running_loop().add_reader(self._socket, self._readable)

    def close(self) -> None:
        asyncio.get_running_loop().remove_reader(self._socket)
        self._socket.close()

    def _readable(self) -> None:
        try:
            data = self._socket.recv(65536)
        except (BlockingIOError, ConnectionRefusedError):
            return  # refused: nobody listens there yet; the retransmission tries again
        message = parse(data)
        if message is None:
            return
        self.log.append(Logged(time.time(), sent=False, message=message))
        if message.status:
            self._take_response(message)
        else:
            self._take_request(message)

    async def invite(self, sdp: str) -> Message:
        """Place the call and acknowledge its answer; raises :exc:`CallFailed`."""
        answer = await self._request("INVITE", extra=(ALLOW, ("Content-Type", "application/sdp")), body=sdp)
        if answer.status >= 300:
            raise CallFailed(f"the gateway answered the INVITE with {answer.start_line[8:]}")
        return answer

    async def bye(self) -> None:
        self.hung_up = True
        answer = await self._request("BYE")
        if answer.status != 200:
            raise CallFailed(f"the gateway answered our BYE with {answer.start_line[8:]}")

    async def notify(self, fragment: str, *, final: bool) -> None:
        """Report the progress of the REFER (RFC 3515, section 2.4.4)."""
        state = "terminated;reason=noresource" if final else "active;expires=60"
        answer = await self._request(
            "NOTIFY",
            extra=(
                ("Event", "refer"),
                ("Subscription-State", state),
                ("Content-Type", "message/sipfrag;version=2.0"),
            ),
            body=f"SIP/2.0 {fragment}\r\n",
        )
        if answer.status != 200:
            raise CallFailed(f"the gateway answered our NOTIFY with {answer.start_line[8:]}")

    # Requests of ours.

    async def _request(self, method: str, *, extra: Headers = (), body: str = "") -> Message:
        self.dialog.cseq += 1
        number = self.dialog.cseq
        via = f"SIP/2.0/UDP {self.host}:{self.port};branch=z9hG4bK{secrets.token_hex(6)};rport"
        request = self.dialog.request(method, via=via, cseq=number, extra=extra, body=body)
        answered: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._waiting[number, method] = answered
        try:
            async with asyncio.timeout(self._patience):
                return await self._send_until(request, answered)
        except TimeoutError:
            raise CallFailed(f"the gateway did not answer our {method} within {self._patience:g} s") from None
        finally:
            self._waiting.pop((number, method), None)

    async def _send_until(self, request: Message, answered: asyncio.Future[Message]) -> Message:
        after = T1
        while True:
            if not (request.method == "INVITE" and self._is_trying(request.cseq)):
                self._send(request)
            try:
                async with asyncio.timeout(after):
                    return await asyncio.shield(answered)
            except TimeoutError:
                after = min(2 * after, 4.0)

    def _is_trying(self, cseq: int) -> bool:
        """Whether a provisional response came: then an INVITE is not sent again (section 17.1.1.2)."""
        return any(
            not entry.sent and 100 <= entry.message.status < 200 and entry.message.cseq == cseq
            for entry in self.log
        )

    def _take_response(self, response: Message) -> None:
        if response.method == "INVITE" and response.status >= 200:
            self._acknowledge(response)
        answered = self._waiting.get((response.cseq, response.method))
        if answered is not None and not answered.done() and response.status >= 200:
            answered.set_result(response)

    def _acknowledge(self, response: Message) -> None:
        """Send the ACK, the same one again for each retransmitted final response (section 13.2.2.4)."""
        if self._ack is None:
            if response.status < 300:
                self.dialog.target = uri_in(response.get("contact")) or self.dialog.target
                self.dialog.routes = response.all("record-route")[::-1]
                branch = f"z9hG4bK{secrets.token_hex(6)}"
                via = f"SIP/2.0/UDP {self.host}:{self.port};branch={branch};rport"
            else:
                via = response.get("via")
            if tag_in(response.get("to")):
                self.dialog.remote = response.get("to")
            self._ack = self.dialog.request("ACK", via=via, cseq=response.cseq)
        self._send(self._ack)

    # Requests of the gateway.

    def _take_request(self, request: Message) -> None:
        if request.method == "ACK":
            return
        if request.get("call-id") != self.dialog.call_id:
            self._send(respond(request, "481 Call/Transaction Does Not Exist", tag="none"))
            return
        match request.method:
            case "BYE":
                self._send(respond(request, "200 OK"))
                self.ended.set()
            case "REFER":
                self._send(respond(request, "202 Accepted", extra=(("Contact", f"<{self.dialog.contact}>"),)))
                self.refer = request
                self.referred.set()
            case "OPTIONS" | "INFO":
                self._send(respond(request, "200 OK", extra=(ALLOW,)))
            case _:
                self._send(respond(request, "405 Method Not Allowed", extra=(ALLOW,)))

    def _send(self, message: Message) -> None:
        self.log.append(Logged(time.time(), sent=True, message=message))
        self._socket.sendto(message.to_bytes(), self._gateway)
