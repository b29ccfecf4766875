"""
Telephone-events: keys of a telephone as RTP packets (RFC 4733).
"""

from __future__ import annotations

from collections import deque

from gateway.rtp.packet import timestamp_delta

DIGITS = "0123456789*#ABCD"
"""Digit by event number (RFC 4733 section 3.2)."""

CLOCK_RATE = 8000

_REPEAT_WINDOW_S = 0.1
_PRESENT_S = 0.06
_LONGEST_SEGMENT = 0xFFFF
_RECENT_SAMPLES = 5 * CLOCK_RATE


class DtmfReceiver:
    """
    Finds each key press exactly once, whatever is lost, repeated or mangled on the way.

    A press is reported at its first packet. What follows belongs to it by its timestamp; beyond that come
    the known exceptions: segments of a press longer than 8 s (section 2.5.1.3), relays that advance the
    timestamp of the end packets or of every packet.
    """

    def __init__(self) -> None:
        self._ssrc: int | None = None
        self._event = -1
        self._timestamp = 0
        self._duration = 0
        self._ended = False
        self._heard_at = 0.0

    def receive(self, ssrc: int, timestamp: int, payload: bytes, now: float) -> str | None:
        """Take an event packet; return a digit if a key was pressed."""
        if len(payload) < 4 or payload[0] >= len(DIGITS):
            return None
        event, flags = payload[0], payload[1]
        ended = flags > 0x7F
        duration = int.from_bytes(payload[2:4], "big")
        if ssrc == self._ssrc and self._is_known(event, timestamp, duration, now, ended=ended):
            return None
        self._ssrc = ssrc
        self._event = event
        self._timestamp = timestamp
        self._note(duration, now, ended=ended)
        return DIGITS[event]

    def _is_known(self, event: int, timestamp: int, duration: int, now: float, *, ended: bool) -> bool:
        ahead = timestamp_delta(timestamp, self._timestamp)
        if ahead == 0 and event == self._event:
            self._note(max(duration, self._duration), now, ended=ended or self._ended)
            return True
        if -_RECENT_SAMPLES < ahead < 0:
            return True  # reordered: an event before the present one
        if event != self._event:
            return False
        age = now - self._heard_at
        if not self._ended and ahead == self._duration == _LONGEST_SEGMENT:
            self._timestamp = timestamp  # the next segment of a long press
            self._note(duration, now, ended=ended)
            return True
        if ended and self._ended and age <= _REPEAT_WINDOW_S:
            return True  # an end packet with a moved timestamp
        if not self._ended and age <= _PRESENT_S and duration > self._duration:
            self._timestamp = timestamp  # a relay that advances every timestamp
            self._note(duration, now, ended=ended)
            return True
        return False

    def _note(self, duration: int, now: float, *, ended: bool) -> None:
        self._duration = duration
        self._ended = ended
        self._heard_at = now


class DtmfPacket:
    """One event packet to be sent; its RTP timestamp is the one at which its event began."""

    __slots__ = ("marker", "payload")

    def __init__(self, payload: bytes, *, marker: bool) -> None:
        self.payload = payload
        self.marker = marker


class DtmfSender:
    """
    Turns digits into event packets, one for each packet interval.

    A press of ``press_ms`` is followed by a pause of at least ``pause_ms``, in which the end packet is
    repeated twice (section 2.5.1.4). All packets of a press have one timestamp: the caller keeps it from
    the packet with the marker.
    """

    MAX_QUEUED = 64

    def __init__(self, *, interval_ms: int = 20, press_ms: int = 100, pause_ms: int = 80) -> None:
        self._interval = interval_ms * CLOCK_RATE // 1000
        self._updates = press_ms // interval_ms
        self._rest = max(pause_ms // interval_ms - 2, 1)
        self._queue: deque[int] = deque()
        self._event = 0
        self._step = 0  # 0 is idle; then updates, two more end packets, silence

    @property
    def active(self) -> bool:
        """Whether a key is being sent or waits."""
        return bool(self._step or self._queue)

    def send(self, digits: str) -> None:
        """
        Queue digits.

        Raises:
            ValueError: A character is no key of a telephone, or too many keys wait.
        """
        events = [DIGITS.find(digit) for digit in digits.upper()]
        if -1 in events:
            raise ValueError(f"not a telephone key: {digits[events.index(-1)]!r}")
        if len(self._queue) + len(events) > self.MAX_QUEUED:
            raise ValueError(f"more than {self.MAX_QUEUED} keys wait to be sent")
        self._queue.extend(events)

    def clear(self) -> None:
        """Forget everything that was not sent."""
        self._queue.clear()
        self._step = 0

    def next_packet(self) -> DtmfPacket | None:
        """Take the packet of this interval; ``None`` in the pause between two keys and when idle."""
        if not self._step:
            if not self._queue:
                return None
            self._event = self._queue.popleft()
        self._step += 1
        step = self._step
        if step == self._updates + 2 + self._rest:
            self._step = 0
        if step > self._updates + 2:
            return None
        ended = step >= self._updates
        duration = min(step, self._updates) * self._interval
        payload = bytes((self._event, (0x80 if ended else 0) | 10)) + duration.to_bytes(2, "big")
        return DtmfPacket(payload, marker=step == 1)
