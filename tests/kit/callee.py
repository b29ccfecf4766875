"""
SIPp as the called party: a scenario from a few steps, run at an address of its own.

``{tag}`` in a step stands for the To tag of the call; what SIPp checks (``says``) is a regular expression on
the whole message.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from xml.sax.saxutils import quoteattr

from tests.kit.ports import Ports
from tests.kit.sipp import Outcome, last_row

SDP = """v=0
o=- 1 1 IN IP4 [local_ip]
s=-
c=IN IP4 [local_ip]
t=0 0
m=audio {port} RTP/AVP 0
a=rtpmap:0 PCMU/8000"""

_KEEP = {"via": "Via:", "from": "From:", "to": "To:", "cseq": "CSeq:", "id": "Call-ID:"}


def expect(method: str, *, says: Sequence[str] = (), optional: bool = False) -> str:
    """Receive a request; an INVITE's headers are kept for the responses to it."""
    actions = [
        f'<ereg regexp={quoteattr(text)} search_in="msg" check_it="true" assign_to="seen"/>'
        f'<log message="[$seen]"/>'
        for text in says
    ]
    if method == "INVITE":
        actions += [
            f'<ereg regexp=".*" search_in="hdr" header="{header}" check_it="true" assign_to="{name}"/>'
            for name, header in _KEEP.items()
        ]
    option = ' optional="true"' if optional else ""
    route = ' rrs="true"' if method == "INVITE" else ""
    inner = f"<action>{''.join(actions)}</action>" if actions else ""
    return f'<recv request="{method}"{route}{option}>{inner}</recv>'


def expect_response(status: int) -> str:
    return f'<recv response="{status}" rtd="false"/>'


def reply(
    status: int, phrase: str = "OK", *extra: str, tag: str = "T1", sdp: int = 0, proxied: bool = False
) -> str:
    """
    Answer the last INVITE.

    Args:
        status: Of the response.
        phrase: Of the response.
        extra: Further headers; a Contact takes the place of the usual one.
        tag: Of the To; none for a re-INVITE, which has it.
        sdp: The port of a description.
        proxied: Whether the INVITE came by proxies and nothing came after it: all its Vias are copied, and
            its Record-Route.
    """
    via = ["[last_Via:]", "[last_Record-Route:]"] if proxied else ["Via:[$via]"]
    to = "To:[$to]" + (f";tag={tag}" if tag else "")
    contact = (
        []
        if any(line.startswith("Contact:") for line in extra)
        else ["Contact: <sip:bob@[local_ip]:[local_port]>"]
    )
    headers = [*via, "From:[$from]", to, "Call-ID:[$id]", "CSeq:[$cseq]", *contact, *extra]
    return _send(f"SIP/2.0 {status} {phrase}", headers, sdp, again=status >= 200)


def confirm(status: int = 200, phrase: str = "OK", *extra: str) -> str:
    """Answer the last request that was received, in the dialog."""
    headers = ["[last_Via:]", "[last_From:]", "[last_To:]", "[last_Call-ID:]", "[last_CSeq:]", *extra]
    return _send(f"SIP/2.0 {status} {phrase}", headers, 0)


def ask(method: str, cseq: int, *extra: str, tag: str = "T1", sdp: int = 0) -> str:
    """Send a request of the called party in the dialog."""
    headers = [
        f"Via: SIP/2.0/[transport] [local_ip]:[local_port];branch=z9hG4bK-{method}{cseq}-[pid]-[call_number]",
        "Max-Forwards: 70",
        f"From:[$to];tag={tag}",
        "To:[$from]",
        "Call-ID:[$id]",
        f"CSeq: {cseq} {method}",
        "Contact: <sip:bob@[local_ip]:[local_port]>",
        *extra,
    ]
    return _send(f"{method} [next_url] SIP/2.0", headers, sdp, again=method != "ACK")


def pause(ms: int) -> str:
    return f'<pause milliseconds="{ms}"/>'


def _send(start: str, headers: Sequence[str], sdp: int, *, again: bool = False) -> str:
    body = SDP.format(port=sdp) if sdp else ""
    kind = ["Content-Type: application/sdp"] if sdp else []
    lines = [start, *headers, *kind, "Content-Length: [len]", "", body]
    opening = '<send retrans="500">' if again else "<send>"
    return f"{opening}<![CDATA[\n" + "\n".join(lines) + "\n]]></send>"


class Callee:
    """One run of SIPp as UAS; ends when its call is over. :meth:`wait` returns what it counted."""

    def __init__(
        self,
        steps: Sequence[str],
        ports: Ports,
        folder: Path,
        *,
        tcp: bool = False,
        calls: int = 1,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.port = ports.take(2)
        scenario = "\n".join(steps)
        # SIPp stops at a variable that nothing reads, and at one that does not exist.
        scenario += f'\n<Reference variables="{",".join(_KEEP)}"/>'
        head = '<?xml version="1.0" encoding="UTF-8"?>\n<scenario name="callee">'
        (folder / "callee.xml").write_text(f"{head}\n{scenario}\n</scenario>\n")
        command = (
            f"sipp -sf callee.xml -i 127.0.0.1 -p {self.port} -m {calls} -nostdin -timeout 20s -timeout_error"
        )
        command += (
            f" -t {'t1' if tcp else 'u1'} -trace_err -error_file errors.log -trace_stat -stf stat.csv -fd 1"
        )
        self.started = time.monotonic()
        with (folder / "screen.log").open("wb") as output:
            self.popen = subprocess.Popen(
                command.split(), cwd=folder, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
            )

    def __enter__(self) -> Callee:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        if self.popen.poll() is None:
            self.popen.kill()
            self.popen.wait()

    def wait(self) -> Outcome:
        """Wait until its calls are over, 25 seconds at most."""
        try:
            code = self.popen.wait(25)
        except subprocess.TimeoutExpired:
            self.popen.kill()
            code = self.popen.wait()
        counted = last_row(self.folder / "stat.csv")
        errors = self.folder / "errors.log"
        text = errors.read_text(errors="replace") if errors.exists() else ""
        if code and not text:
            text = (self.folder / "screen.log").read_text(errors="replace")[-3000:]
        return Outcome(
            exit_code=code,
            successful=int(counted.get("SuccessfulCall(C)", 0)),
            failed=int(counted.get("FailedCall(C)", 0)),
            retransmissions=int(counted.get("Retransmissions(C)", 0)),
            errors=text,
            seconds=time.monotonic() - self.started,
        )
