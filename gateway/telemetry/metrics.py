"""
Every figure of ``/metrics`` in one object.

What happens is counted by methods; what *is* (calls, leased ports, late ticks) is read from its
owner when somebody asks, through :meth:`Metrics.watch`, so it cannot drift. Label values are
bounded: a model that invents tool names fills one series, not the memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

Reading = Callable[[], float]
Tally = Callable[[], Mapping[str, float]]
"""Counts by reason; there are few reasons, and all are known beforehand."""

_SETUP_BUCKETS = (0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0)
_FIRST_AUDIO_BUCKETS = (0.02, 0.04, 0.06, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0)
_MOS_BUCKETS = (1.5, 2.0, 2.5, 3.0, 3.4, 3.6, 3.8, 4.0, 4.2, 4.4)
_MISSING_BUCKETS = (0.0, 0.001, 0.005, 0.01, 0.02, 0.03, 0.05, 0.1, 0.2)
_DELAY_BUCKETS = (0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5)
_LABEL_VALUES = 100
"""Different values of one label; what comes later is counted as ``other``."""


class _Labels:
    """Lets a bounded number of values through."""

    def __init__(self) -> None:
        self._seen: set[str] = set()

    def __call__(self, value: str) -> str:
        if value in self._seen:
            return value
        if len(self._seen) >= _LABEL_VALUES:
            return "other"
        self._seen.add(value)
        return value


@dataclass(frozen=True, slots=True)
class TrunkFigures:
    """What is read of one trunk; ``None`` leaves a figure out: nobody knows it."""

    trunk: str
    calls: int
    registered: float | None
    """1 or 0."""
    reachable: float | None
    """1 or 0."""


@dataclass(frozen=True, slots=True)
class ProviderFigures:
    """What is read of one provider."""

    provider: str
    state: str
    """Of its breaker: ``closed``, ``half_open`` or ``open``."""
    failures: int


def _no_trunks() -> list[TrunkFigures]:
    return []


def _no_providers() -> list[ProviderFigures]:
    return []


class _Watched(Collector):
    """Reads gauges and counters from their owners at the time of a scrape."""

    def __init__(self) -> None:
        self.gauges: dict[str, tuple[str, Reading]] = {}
        self.counters: dict[str, tuple[str, Reading]] = {}
        self.reasons: dict[str, tuple[str, Tally]] = {}
        self.trunks: Callable[[], list[TrunkFigures]] = _no_trunks
        self.providers: Callable[[], list[ProviderFigures]] = _no_providers

    def collect(self) -> Iterator[Metric]:
        yield from self._collect_trunks()
        yield from self._collect_providers()
        for name, (about, read) in self.gauges.items():
            yield GaugeMetricFamily(name, about, value=read())
        for name, (about, read) in self.counters.items():
            yield CounterMetricFamily(name, about, value=read())
        for name, (about, tally) in self.reasons.items():
            family = CounterMetricFamily(name, about, labels=("reason",))
            for reason, value in tally().items():
                family.add_metric([reason], value)
            yield family

    def _collect_trunks(self) -> Iterator[Metric]:
        calls = GaugeMetricFamily("trunkline_trunk_calls", "Calls now, by trunk.", labels=["trunk"])
        registered = GaugeMetricFamily(
            "trunkline_trunk_registered", "Whether the registrar has our contact.", labels=["trunk"]
        )
        reachable = GaugeMetricFamily(
            "trunkline_trunk_reachable", "Whether the peer answers OPTIONS.", labels=["trunk"]
        )
        for each in self.trunks():
            for family, value in (
                (calls, float(each.calls)),
                (registered, each.registered),
                (reachable, each.reachable),
            ):
                if value is not None:
                    family.add_metric([each.trunk], value)
        yield from (calls, registered, reachable)

    def _collect_providers(self) -> Iterator[Metric]:
        breaker = GaugeMetricFamily(
            "trunkline_provider_breaker",
            "Whether the provider is tried: 1 in the state that holds (closed, half_open, open).",
            labels=["provider", "state"],
        )
        failures = CounterMetricFamily(
            "trunkline_provider_failures",
            "Sessions that could not be opened, or were lost.",
            labels=["provider"],
        )
        for each in self.providers():
            for state in ("closed", "half_open", "open"):
                breaker.add_metric([each.provider, state], float(state == each.state))
            failures.add_metric([each.provider], float(each.failures))
        yield from (breaker, failures)


class Metrics:
    """
    The process's figures.

    Args:
        registry: Where they are registered; a new one by default, so that two gateways in one
            process (as in tests) do not share figures.
    """

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry or CollectorRegistry()
        self._tools, self._reasons, self._listeners = _Labels(), _Labels(), _Labels()
        self._outcomes, self._models = _Labels(), _Labels()
        self._started = self._counter("trunkline_calls_started", "Calls that arrived.", "trunk")
        self._answered = self._counter("trunkline_calls_answered", "Calls that were answered.", "trunk")
        self._ended = self._counter("trunkline_calls_ended", "Calls that ended.", "trunk", "reason")
        self._setup = self._histogram(
            "trunkline_call_setup_seconds", "From the INVITE to the answer.", _SETUP_BUCKETS
        )
        self._first_audio = self._histogram(
            "trunkline_first_audio_seconds",
            "From the end of a turn to the first audio.",
            _FIRST_AUDIO_BUCKETS,
        )
        self._tool_calls = self._counter("trunkline_tool_calls", "Tool calls by outcome.", "tool", "status")
        self._transfers = self._counter(
            "trunkline_transfers",
            "Transfers by method (refer, bridge, warm) and outcome (confirmed, or why not).",
            "method",
            "outcome",
        )
        self._barge_ins = self._counter("trunkline_barge_ins", "Times that a caller interrupted the agent.")
        self._count_cost()
        self._recovery = self._counter(
            "trunkline_recovery_steps", "What was done for calls whose model failed.", "step", "reason"
        )
        self._speechless = self._histogram(
            "trunkline_recovery_speechless_seconds",
            "From a model's failure to the next speech of a model.",
            _SETUP_BUCKETS,
        )
        self._count_silence()
        self._count_media()
        self._dropped = self._counter(
            "trunkline_events_dropped", "Events that a slow listener lost.", "listener"
        )
        self._watched = _Watched()
        self.registry.register(self._watched)
        ProcessCollector(registry=self.registry)  # open fds, resident memory, CPU seconds

    def _count_cost(self) -> None:
        self._tokens = self._counter(
            "trunkline_model_tokens",
            "Tokens that models read and wrote, by kind (text, audio, cached; in, out).",
            "provider",
            "model",
            "kind",
        )
        self._model_seconds = self._counter(
            "trunkline_model_seconds", "Seconds that models bill by time.", "provider", "model"
        )
        self._cost = self._counter(
            "trunkline_cost_usd", "What calls cost, as far as it is known.", "provider", "model"
        )
        self._unpriced = self._counter(
            "trunkline_cost_unknown",
            "Times that a model consumed something that nobody has priced.",
            "provider",
            "model",
        )
        self._limits = self._counter(
            "trunkline_call_limits", "Calls that came near a limit or reached it.", "limit", "reached"
        )

    def _count_silence(self) -> None:
        self._missed = self._counter(
            "trunkline_missed_replies", "Times that a caller heard nothing where an answer was due.", "fault"
        )
        self._heard_again = self._histogram(
            "trunkline_missed_reply_seconds",
            "From such a fault to the agent's voice.",
            _FIRST_AUDIO_BUCKETS,
            "fault",
        )
        self._caller_silent = self._counter(
            "trunkline_caller_silences",
            "Times that a silent caller was asked (nudge) or taken leave of (hang_up).",
            "act",
        )

    def _count_media(self) -> None:
        rtp = self._counter("trunkline_rtp_packets", "RTP packets of finished calls.", "direction")
        self._rtp_in, self._rtp_out = rtp.labels("in"), rtp.labels("out")
        self._rtp_lost = self._counter("trunkline_rtp_packets_lost", "RTP packets that never came.")
        self._rtp_late = self._counter("trunkline_rtp_packets_late", "RTP packets too late to be played.")
        self._rtp_refused = self._counter(
            "trunkline_rtp_packets_refused", "RTP packets of sources that are not the call's."
        )
        self._concealed = self._counter(
            "trunkline_rtp_concealed_seconds", "Audio that was missing and was made up."
        )
        self._mos = self._histogram(
            "trunkline_call_mos", "MOS (G.107) of calls.", _MOS_BUCKETS, "trunk", "voice"
        )
        self._missing = self._histogram(
            "trunkline_call_missing_ratio",
            "Packets lost or late, of all.",
            _MISSING_BUCKETS,
            "trunk",
            "voice",
        )
        self._jitter = self._histogram(
            "trunkline_call_jitter_seconds", "Interarrival jitter (RFC 3550).", _DELAY_BUCKETS, "voice"
        )
        self._delay = self._histogram(
            "trunkline_call_delay_seconds", "One-way delay, as far as it is known.", _DELAY_BUCKETS, "voice"
        )
        self._protected = self._counter(
            "trunkline_calls_media", "Calls that had media, by how it was protected.", "protection"
        )
        self._undecryptable = self._counter(
            "trunkline_srtp_packets_undecryptable", "Packets that the agreed SRTP key did not open."
        )
        self._underruns = self._counter(
            "trunkline_playout_underruns",
            "Times that the agent's audio came too late to go on without a pause.",
        )

    def _counter(self, name: str, about: str, *labels: str) -> Counter:
        return Counter(name, about, labels, registry=self.registry)

    def _histogram(self, name: str, about: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
        return Histogram(name, about, labels, buckets=buckets, registry=self.registry)

    def call_started(self, trunk: str) -> None:
        self._started.labels(trunk).inc()

    def call_answered(self, trunk: str, *, setup_s: float) -> None:
        self._answered.labels(trunk).inc()
        self._setup.observe(setup_s)

    def call_ended(self, trunk: str, *, reason: str) -> None:
        self._ended.labels(trunk, self._reasons(reason)).inc()

    def first_audio(self, *, latency_ms: int) -> None:
        """The agent began to answer, so long after the caller had stopped."""
        self._first_audio.observe(latency_ms / 1000)

    def tool_answered(self, tool: str, status: str) -> None:
        self._tool_calls.labels(self._tools(tool), status).inc()

    def transferred(self, method: str, outcome: str) -> None:
        """A transfer came to its end; ``outcome`` is ``confirmed`` or a reason."""
        self._transfers.labels(method, self._outcomes(outcome)).inc()

    def consumed(
        self,
        provider: str,
        model: str,
        *,
        tokens: Mapping[str, int],
        seconds: float,
        usd: float,
        priced: bool,
    ) -> None:
        """Add what a model consumed; ``usd`` is the part that has a price, all of it where ``priced``."""
        who = provider, self._models(model)
        for kind, count in tokens.items():
            if count:
                self._tokens.labels(*who, kind).inc(count)
        if seconds:
            self._model_seconds.labels(*who).inc(seconds)
        self._cost.labels(*who).inc(usd)
        if not priced:
            self._unpriced.labels(*who).inc()

    def limit_told(self, limit: str, *, reached: bool) -> None:
        """A call came near a limit, or reached it."""
        self._limits.labels(limit, str(reached).lower()).inc()

    def barged_in(self) -> None:
        self._barge_ins.inc()

    def recovery_step(self, step: str, reason: str, *, after_ms: int | None) -> None:
        """Something was done for a call whose model failed; ``after_ms`` says how long it was speechless."""
        self._recovery.labels(step, self._reasons(reason)).inc()
        if after_ms is not None:
            self._speechless.observe(after_ms / 1000)

    def reply_missed(self, fault: str) -> None:
        """A caller heard nothing where an answer was due, because of this fault."""
        self._missed.labels(fault).inc()

    def reply_heard(self, fault: str, *, after_s: float) -> None:
        """The agent was heard again, so long after the fault was found."""
        self._heard_again.labels(fault).observe(after_s)

    def caller_was_silent(self, act: str) -> None:
        self._caller_silent.labels(act).inc()

    def rtp_finished(
        self,
        *,
        received: int,
        sent: int,
        lost: int,
        late: int,
        refused: int,
        concealed_ms: int,
        underruns: int,
        undecryptable: int,
        protection: str,
    ) -> None:
        """Add what one call's media stream counted; ``protection`` is ``none``, ``sdes`` or ``dtls``."""
        self._protected.labels(protection).inc()
        self._undecryptable.inc(undecryptable)
        self._rtp_refused.inc(refused)
        self._concealed.inc(concealed_ms / 1000)
        self._underruns.inc(underruns)
        self._rtp_in.inc(received)
        self._rtp_out.inc(sent)
        self._rtp_lost.inc(lost)
        self._rtp_late.inc(late)

    def call_heard(
        self, trunk: str, voice: str, *, mos: float, missing: float, jitter_ms: float, delay_ms: float
    ) -> None:
        """Take how one call's voice, ``caller`` or ``agent``, was heard at the other end of the trunk."""
        self._mos.labels(trunk, voice).observe(mos)
        self._missing.labels(trunk, voice).observe(missing)
        self._jitter.labels(voice).observe(jitter_ms / 1000)
        self._delay.labels(voice).observe(delay_ms / 1000)

    def event_dropped(self, listener: str) -> None:
        """Made for ``EventBus(on_drop=...)``."""
        self._dropped.labels(self._listeners(listener)).inc()

    def watch_trunks(self, read: Callable[[], list[TrunkFigures]]) -> None:
        """Name the owner of the trunks' figures."""
        self._watched.trunks = read

    def watch_providers(self, read: Callable[[], list[ProviderFigures]]) -> None:
        """Name the owner of the providers' figures."""
        self._watched.providers = read

    def watch(
        self,
        *,
        active_calls: Reading,
        leased_ports: Reading,
        pacer_late_ticks: Reading,
        sip_connections: Reading,
        sip_dialogs: Reading,
        sip_transactions: Reading,
        sip_dropped: Tally,
    ) -> None:
        """
        Name the owners of what is read at each scrape.

        Called in the event loop, whose tasks are counted as well.
        """
        loop = asyncio.get_running_loop()
        self._watched.gauges = {
            "trunkline_calls_active": ("Calls now.", active_calls),
            "trunkline_rtp_ports_leased": ("Pairs of RTP ports that calls hold.", leased_ports),
            "trunkline_sip_connections": ("Open connections for SIP: TCP, TLS, WebSocket.", sip_connections),
            "trunkline_sip_dialogs": (
                "Dialogs in memory, also of calls whose BYE is under way.",
                sip_dialogs,
            ),
            "trunkline_sip_transactions": ("SIP transactions in memory, of both sides.", sip_transactions),
            "trunkline_asyncio_tasks": ("Tasks of the event loop.", lambda: len(asyncio.all_tasks(loop))),
        }
        self._watched.counters = {
            "trunkline_pacer_late_ticks": ("Ticks of the pacer that came too late.", pacer_late_ticks)
        }
        self._watched.reasons = {
            "trunkline_sip_dropped": (
                "Datagrams, messages and connections dropped before they were read.",
                sip_dropped,
            )
        }

    def render(self) -> bytes:
        """Return all figures in the text format of Prometheus; runs in the event loop."""
        return generate_latest(self.registry)
