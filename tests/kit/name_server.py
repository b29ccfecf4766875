"""A name server of the tests: it knows what it is told, and counts what it is asked."""

from __future__ import annotations

import socket
import threading
from collections import Counter

import dns.flags
import dns.message
import dns.rcode
import dns.rdatatype
import dns.rrset

Address = tuple[str, int]
SOA = "ns.test. host.test. 1 60 60 60 7"


class NameServer:
    """
    Answers on a UDP port of its own, in a thread: one that waits for it may be a process.

    Args:
        records: Lines of a zone: ``name type value``; the time to live is 60 s unless ``ttl`` says another.
        port: 0 takes any free one.
    """

    def __init__(self, *records: str, ttl: int = 60, port: int = 0) -> None:
        self.asked: Counter[str] = Counter()
        self.silent = False
        self.broken = False
        self._ttl = ttl
        self._sets: dict[tuple[str, str], list[str]] = {}
        for line in records:
            name, kind, value = line.split(None, 2)
            self._sets.setdefault((name.lower(), kind), []).append(value)
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", port))
        self.address: Address = self._socket.getsockname()
        self._thread = threading.Thread(target=self._serve, name="name server", daemon=True)

    def __enter__(self) -> NameServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as waker:
            waker.sendto(b"", self.address)
        self._thread.join()
        self._socket.close()

    def _serve(self) -> None:
        while True:
            data, client = self._socket.recvfrom(4096)
            if not data:
                return
            if not self.silent:
                self._socket.sendto(self._answer(dns.message.from_wire(data)).to_wire(), client)

    def _answer(self, query: dns.message.Message) -> dns.message.Message:
        question = query.question[0]
        name = question.name.to_text(omit_final_dot=True).lower()
        kind = dns.rdatatype.to_text(question.rdtype)
        self.asked[f"{name} {kind}"] += 1
        response = dns.message.make_response(query)
        response.flags |= dns.flags.AA
        if self.broken:
            response.set_rcode(dns.rcode.SERVFAIL)
            return response
        if values := self._sets.get((name, kind)):
            response.answer.append(dns.rrset.from_text(question.name, self._ttl, "IN", kind, *values))
            return response
        if not any(known == name for known, _ in self._sets):
            response.set_rcode(dns.rcode.NXDOMAIN)
        response.authority.append(dns.rrset.from_text("test.", 60, "IN", "SOA", SOA))
        return response
