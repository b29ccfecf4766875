"""Thousands of calls in which nothing happens but session timers: what one costs, and that all are kept."""

from __future__ import annotations

import gc
import time
import tracemalloc

import pytest

from gateway.sip import events as sip
from gateway.sip.settings import UaSettings
from tests.gateway.sip.rig import Rig, invite, request
from tests.kit import sip_text
from tests.kit.counts import counts

DIALOGS = counts(test=500, full=5000)
BOUND_KB = 20.0
"""For each dialog: 5000 of them take less than 100 MB."""


def invite_number(number: int) -> bytes:
    ours = number % 2 == 0  # every other caller refreshes by itself
    timer = ("Session-Expires", f"1800;refresher={'uas' if ours else 'uac'}")
    extra = (("Supported", "timer"), ("Allow", "INVITE, ACK, BYE, UPDATE"), timer)
    return invite(call_id=f"idle-{number}", branch=f"i{number}", from_tag=f"f{number}", extra=extra)


@pytest.mark.soak
@pytest.mark.timeout(300)
def test_idle_calls_with_session_timers_are_small_and_all_are_refreshed():
    gc.collect()
    tracemalloc.start()
    rig = Rig(UaSettings(max_transactions=2 * DIALOGS, max_dialogs=2 * DIALOGS))
    tags = {}
    for number in range(DIALOGS):
        made = rig.answered(invite_number(number))
        tags[number] = made.to_tag
        rig.outgoing.clear()
        ack = request(
            "ACK", branch=f"a{number}", to_tag=made.to_tag, call_id=f"idle-{number}", from_tag=f"f{number}"
        )
        rig.feed(ack)
        rig.events()
    rig.advance(40.0)  # the transactions are over
    rig.outgoing.clear()
    gc.collect()
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    size_kb = used / DIALOGS / 1024
    print(f"\n{DIALOGS} idle dialogs: {used / 1e6:.1f} MB, {size_kb:.1f} KB each")

    begun, cpu = time.monotonic(), time.process_time()
    refreshed = 0
    for at in (900.0, 950.0):
        for number in range(1, DIALOGS, 2):  # the callers' own refreshes
            branch, tag = f"u{number}-{at}", tags[number]
            cseq = 2 if at == 900.0 else 3
            extra = (("Supported", "timer"), ("Session-Expires", "1800;refresher=uac"))
            data = request(
                "UPDATE",
                branch=branch,
                to_tag=tag,
                call_id=f"idle-{number}",
                from_tag=f"f{number}",
                cseq=cseq,
                extra=extra,
            )
            assert rig.feed(data)[0].status == 200
        for _, message in rig.advance(at):
            if message.method == "UPDATE":
                refreshed += 1
                rig.feed(
                    sip_text.respond(message, 200, "OK", extra=(("Session-Expires", "1800;refresher=uac"),))
                )
        rig.outgoing.clear()
    took = time.process_time() - cpu
    print(f"their refreshes took {took:.1f} s of CPU, {took / (1.5 * DIALOGS) * 1000:.2f} ms each")

    assert refreshed == (DIALOGS + 1) // 2
    assert not [event for event in rig.events() if isinstance(event, sip.CallEnded)]
    assert rig.ua.active_calls == DIALOGS
    assert size_kb < BOUND_KB
    assert time.monotonic() - begun < 240
