"""Calls of ours through Kamailio: it checks our digest, stays in the route, and forks."""

from __future__ import annotations

import asyncio

import pytest

from gateway.sip import events as sip
from gateway.sip.target import Credentials, Target
from tests.kit.callee import Callee, confirm, expect, reply
from tests.kit.kamailio import REALM, Kamailio
from tests.kit.ports import Ports
from tests.sipp.caller import OFFER, Caller

pytestmark = pytest.mark.peers

WORD = "correct horse"
USERS = {"gw": WORD}


@pytest.fixture
def ports():
    with Ports() as ports:
        yield ports


def dial(caller: Caller, proxy: Kamailio, user: str, password: str = WORD, realm: str = REALM) -> str:
    target = Target(
        f"sip:{user}@{REALM}",
        f"<sip:gw@{REALM}>",
        (caller.flow(proxy.sip[1]),),
        credentials=Credentials("gw", password, realm),
    )
    caller.call = caller.ua.invite(target, OFFER, now=caller.now)
    caller.endpoint.settle()
    return caller.call


@pytest.mark.report("BR-037")
@pytest.mark.parametrize("algorithm", ["MD5", "SHA-256"])
async def test_kamailio_checks_our_digest_and_carries_the_call(ports, tmp_path, algorithm):
    steps = [
        expect("INVITE", says=("CSeq: 2 INVITE",)),
        reply(180, "Ringing", proxied=True),
        reply(200, "OK", sdp=30000, proxied=True),
        expect("ACK", says=("CSeq: 2 ACK", r"Via: .*\s+Via: ")),
        expect("BYE", says=("CSeq: 3 BYE", r"Via: .*\s+Via: ")),
        confirm(),
    ]
    with (
        Callee(steps, ports, tmp_path / "callee") as callee,
        Kamailio(
            ports,
            tmp_path / "kamailio",
            gateway=("127.0.0.1", callee.port),
            users=USERS,
            challenge=True,
            algorithm=algorithm,
        ) as proxy,
    ):
        async with Caller() as caller:
            caller.does = {sip.CallAccepted: caller.bye}
            dial(caller, proxy, "bob")
            ended = await caller.until(sip.CallEnded)
            outcome = await asyncio.to_thread(callee.wait)
        assert outcome.clean, outcome.errors
        assert (ended.reason, len(proxy.requests("INVITE"))) == ("local", 2)
        # The ACK of the 407 is not among them: Kamailio takes it before its script.
        assert [len(proxy.requests(method)) for method in ("ACK", "BYE")] == [1, 1]


async def test_a_wrong_password_is_tried_once(ports, tmp_path):
    with Kamailio(ports, tmp_path / "kamailio", users=USERS, challenge=True) as proxy:
        async with Caller() as caller:
            dial(caller, proxy, "bob", "wrong")
            ended = await caller.until(sip.CallEnded)
        assert (ended.reason, ended.status) == ("rejected", 407)
        assert len(proxy.requests("INVITE")) == 2


async def test_another_realm_than_ours_is_not_answered(ports, tmp_path):
    with Kamailio(ports, tmp_path / "kamailio", users=USERS, challenge=True) as proxy:
        async with Caller() as caller:
            dial(caller, proxy, "bob", realm="carrier.example")
            ended = await caller.until(sip.CallEnded)
        assert (ended.reason, ended.status) == ("rejected", 407)
        assert len(proxy.requests("INVITE")) == 1


@pytest.mark.report("BR-024")
async def test_of_two_telephones_that_answer_at_once_one_is_kept_and_one_is_hung_up(ports, tmp_path):
    def telephone(tag: str) -> list[str]:
        return [
            expect("INVITE"),
            reply(200, "OK", tag=tag, sdp=30000, proxied=True),
            expect("CANCEL", optional=True),
            expect("ACK", says=(f"tag={tag}",)),
            expect("BYE", says=(f"tag={tag}",)),
            confirm(),
        ]

    with (
        Callee(telephone("T1"), ports, tmp_path / "one") as one,
        Callee(telephone("T2"), ports, tmp_path / "two") as two,
        Kamailio(ports, tmp_path / "kamailio", users={**USERS, "bob": WORD}) as proxy,
    ):
        async with Caller() as caller:
            contacts = ", ".join(f"<sip:bob@127.0.0.1:{each.port}>" for each in (one, two))
            registrar = Target(
                f"sip:{REALM}",
                f"<sip:bob@{REALM}>",
                (caller.flow(proxy.sip[1]),),
                to=f"<sip:bob@{REALM}>",
                credentials=Credentials("bob", WORD),
            )
            headers = (("Contact", contacts), ("Expires", "600"))
            caller.ua.request("REGISTER", registrar, headers=headers, now=caller.now)
            caller.endpoint.settle()
            registered = await caller.until(sip.RequestAnswered)
            assert registered.status == 200
            call = dial(caller, proxy, "bob")
            await caller.until(sip.CallAccepted)
            await asyncio.sleep(0.5)  # both answers are here by now
            caller.ua.bye(call, now=caller.now)
            caller.endpoint.settle()
            outcomes = [await asyncio.to_thread(each.wait) for each in (one, two)]
        assert all(outcome.clean for outcome in outcomes), [outcome.errors for outcome in outcomes]
        assert [outcome.successful for outcome in outcomes] == [1, 1]
    kinds = [type(event) for event in caller.events if isinstance(event, sip.CallAccepted | sip.CallEnded)]
    assert kinds == [sip.CallAccepted, sip.CallEnded]
