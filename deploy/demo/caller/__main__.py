"""Place one call: ``python -m deploy.demo.caller --gateway 127.0.0.1:5060 --to 100 --out DIR``."""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path

from deploy.demo.caller.media import Media
from deploy.demo.caller.message import read_sdp, uri_in, write_sdp
from deploy.demo.caller.phone import CallFailed, Phone
from deploy.demo.caller.player import Player
from deploy.demo.caller.report import CallReport, measure, messages, save
from deploy.demo.caller.story import STORIES, HangUp, Step, without_barge_in

LINGER_S = 0.2
"""How long the ear stays open after the end, to catch audio that comes too late."""


async def place(options: argparse.Namespace) -> CallReport:
    """Place the call, play the story, write the report."""
    host, _, port = options.gateway.rpartition(":")
    phone = Phone(
        (host, int(port)),
        host=options.host,
        caller=options.caller,
        called=options.to,
        patience=options.patience,
    )
    phone.open()
    media = Media(options.host)
    media.listen()
    player = Player(phone, media, patience=options.patience)
    story = STORIES[options.story]
    try:
        failure = await _converse(phone, media, player, without_barge_in(story) if options.patient else story)
    except CallFailed as error:
        failure = str(error)
    finally:
        media.close()
        phone.close()
    report = describe(options, phone, media, player, failure)
    save(report, media.packets, media.sent, options.out)
    return report


async def _converse(phone: Phone, media: Media, player: Player, story: tuple[Step, ...]) -> str:
    answer = await phone.invite(write_sdp(phone.host, media.port))
    try:
        remote = read_sdp(answer.body)
    except ValueError as error:
        await phone.bye()
        return str(error)
    media.start(remote.host, remote.port)
    async with asyncio.TaskGroup() as group:
        microphone = group.create_task(media.run(), name="microphone")
        failure = await player.play(story)
        if not phone.is_over:
            unended = await player.play((HangUp(),))
            failure = failure or unended
        await asyncio.sleep(LINGER_S)
        microphone.cancel()
    return failure


def describe(
    options: argparse.Namespace, phone: Phone, media: Media, player: Player, failure: str
) -> CallReport:
    """Put together what was sent and what came."""
    answered = [entry.at for entry in phone.log if not entry.sent and entry.message.status == 200]
    byes = [entry for entry in phone.log if entry.message.start_line.startswith("BYE ")]
    return CallReport(
        story=options.story,
        caller=options.caller,
        called=options.to,
        call_id=phone.dialog.call_id,
        invited_at=phone.log[0].at if phone.log else 0.0,
        answered_at=answered[0] if answered else 0.0,
        media_at=media.started_at,
        first_packet_at=media.packets[0].at if media.packets else 0.0,
        audible_at=[round(at, 6) for at in media.audible_at],
        ended_at=byes[0].at if byes else 0.0,
        ended_by="nobody" if not byes else "caller" if byes[0].sent else "gateway",
        said=player.said,
        rtp=measure(media.packets),
        frames_sent=len(media.sent),
        refer_to=uri_in(phone.refer.get("refer-to")) if phone.refer else "",
        notified=player.notified,
        messages=messages(phone.log),
        failure=failure,
    )


def options_of(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m deploy.demo.caller", description=__doc__)
    parser.add_argument("--gateway", required=True, metavar="HOST:PORT", help="where the gateway takes SIP")
    parser.add_argument("--host", default="127.0.0.1", help="our own address")
    parser.add_argument("--to", required=True, help="the number to call")
    parser.add_argument("--caller", default="+12125550142", help="our own number")
    parser.add_argument("--story", choices=sorted(STORIES), default="first")
    parser.add_argument("--patient", action="store_true", help="never interrupt the agent")
    parser.add_argument("--patience", type=float, default=12.0, help="seconds that a step may take")
    parser.add_argument("--out", type=Path, required=True, help="folder for the report and the audio")
    return parser.parse_args(arguments)


def main() -> int:
    report = asyncio.run(place(options_of()))
    if report.failure:
        print(report.failure, file=sys.stderr)
    return 1 if report.failure else 0


if __name__ == "__main__":
    sys.exit(main())
