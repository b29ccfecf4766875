"""
A person on a telephone who hears later than packets come, waits for the agent to speak, and talks over it.
"""

from __future__ import annotations

import time

from tests.kit.handset import Handset, Played
from tests.kit.phone import PAYLOAD, Audio, Phone
from tests.kit.sound import utterance

PAUSE = 10
"""So many silent frames (200 ms) separate two things that the agent says."""


class Caller:
    """
    Works while one of its methods runs, in the thread of the phone.

    Args:
        phone: In a call, or about to dial.
        handset: What lies between the packets and the ear.
    """

    def __init__(self, phone: Phone, handset: Handset) -> None:
        self.phone = phone
        self.handset = handset
        self.spurts: list[float] = []
        """When the packets of each thing that the agent said began to come."""
        self._seen = 0
        self._quiet = PAUSE

    def wait_for_agent(self, timeout: float, *, by_ear: bool = True) -> bool:
        """
        Return when the agent's next words reach the ear; ``False`` when the gateway hung up instead.

        Without ``by_ear`` it returns as soon as they reach the telephone.
        """
        before = len(self.spurts)

        def came() -> bool:
            return len(self._look()) > before or self.bye_at is not None

        self.phone.until(came, timeout, "the agent's next words")
        if len(self.spurts) == before:
            return False
        if by_ear:
            self.pause(self.spurts[before] + self.handset.delay_s - time.time())
        return True

    def wait_for_bye(self, seconds: float) -> None:
        """Listen for so long, or until the gateway hangs up."""
        end = time.monotonic() + seconds
        while self.bye_at is None and time.monotonic() < end:
            self.pause(0.1)

    def pause(self, seconds: float) -> None:
        self.phone.listen(max(0.0, seconds))
        self._look()

    def speak(self, seed: int, seconds: float) -> None:
        """Say something, in whatever the agent is saying."""
        self.phone.speak(utterance(seed, seconds))
        self._look()

    @property
    def bye_at(self) -> float | None:
        return next((each.at for each in self.phone.received if each.message.method == "BYE"), None)

    def played(self) -> Played:
        """Play everything that came, up to the BYE where one came."""
        kind = PAYLOAD[self.phone.codec]
        packets = [each for each in self.phone.audio if each.kind == kind]
        bye_at = self.bye_at
        return self.handset.play(packets) if bye_at is None else self.handset.play(packets, hung_up_at=bye_at)

    def _look(self) -> list[float]:
        for packet in self.phone.audio[self._seen :]:
            if not is_sound(packet):
                self._quiet += 1
                continue
            if self._quiet >= PAUSE:
                self.spurts.append(packet.at)
            self._quiet = 0
        self._seen = len(self.phone.audio)
        return self.spurts


def is_sound(packet: Audio) -> bool:
    """Whether there is anything but the gateway's own silence in a packet."""
    return packet.payload.count(packet.payload[:1]) != len(packet.payload)
