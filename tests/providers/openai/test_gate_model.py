"""The response gate against a model of a server, for any order of what happens."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from providers.openai.gate import GateState, Request, ResponseGate, Timing
from providers.openai.messages import CancelResponse, CreateResponse


class GateAgainstAServer(RuleBasedStateMachine):
    """
    A server with one active response, whose events arrive in order but late.

    The server of this model refuses a second response; the gate must never make it do so,
    save by the race that no client can avoid: the server starts one of its own while our
    request is on its way.
    """

    @initialize()
    def start(self) -> None:
        self.now = 0.0
        self.gate = ResponseGate(Timing(progress_wait=1e6))  # this server may think for as long as it likes
        self.count = 0
        self.active: str | None = None
        self.to_client: list[tuple] = []
        self.speaking = False

    def send(self) -> None:
        """Both directions: requests reach the server at once, its events wait to be delivered."""
        for message in self.gate.to_send():
            match message:
                case CreateResponse():
                    assert self.gate.state is GateState.CREATE_PENDING
                    self.receive_create(message)
                case CancelResponse(response_id=response_id):
                    if response_id == self.active:
                        self.end(completed=False)
                    else:
                        self.to_client.append(("nothing to cancel",))

    def receive_create(self, message: CreateResponse) -> None:
        if self.active is None:
            self.begin()
            return
        # Only a response of the server's own that the gate has not been told of can be in the way.
        assert ("created", self.active) in self.to_client
        self.to_client.append(("active", message.event_id, self.active))

    def begin(self) -> None:
        self.count += 1
        self.active = f"resp_{self.count}"
        self.to_client.append(("created", self.active))

    def end(self, *, completed: bool) -> None:
        self.to_client.append(("finished", self.active, completed))
        self.active = None

    @rule(instructions=st.none() | st.just("Say this."))
    def request(self, instructions: str | None) -> None:
        self.gate.request(Request(instructions=instructions), now=self.now)
        self.send()

    @rule()
    def interrupt(self) -> None:
        self.gate.cancel(now=self.now)
        self.send()

    @rule()
    def caller_speaks(self) -> None:
        if not self.speaking:
            self.speaking = True
            if self.active is not None:
                self.end(completed=False)
            self.to_client.append(("speech",))

    @rule()
    def caller_stops(self) -> None:
        if self.speaking:
            self.speaking = False
            self.to_client.append(("silence",))
            if self.active is None:
                self.begin()

    @rule()
    def response_completes(self) -> None:
        if self.active is not None:
            self.end(completed=True)

    @rule()
    def event_arrives(self) -> None:
        if not self.to_client:
            return
        match self.to_client.pop(0):
            case ("created", response_id):
                self.gate.receive_created(response_id, now=self.now)
            case ("finished", response_id, completed):
                self.gate.receive_finished(response_id, completed=completed, now=self.now)
                self.gate.advance(now=self.now)
            case ("speech",):
                self.gate.receive_speech_started(now=self.now)
            case ("silence",):
                self.gate.receive_speech_stopped(now=self.now)
            case ("active", event_id, response_id):
                self.gate.receive_active_elsewhere(event_id, f"in progress: {response_id}", now=self.now)
            case ("nothing to cancel",):
                self.gate.receive_nothing_to_cancel(now=self.now)
        self.send()

    @rule(after=st.sampled_from([0.1, 1.0, 4.0]))
    def time_passes(self, after: float) -> None:
        while self.to_client:  # nothing is in flight for as long as a timer
            self.event_arrives()
        self.now += after
        at = self.gate.next_timeout()
        if at is not None and at <= self.now:
            self.gate.handle_timeout(now=self.now)
            self.send()

    @invariant()
    def nothing_stalls_while_the_server_works(self) -> None:
        if hasattr(self, "gate") and self.active is None:
            assert not self.gate.stalled

    def teardown(self) -> None:
        """However it went: in the end the gate is free and nothing waits."""
        if not hasattr(self, "gate"):
            return
        self.caller_stops()
        for _ in range(60):
            self.time_passes(1.0)
            self.response_completes()
        assert self.gate.state is GateState.FREE
        assert self.gate.next_timeout() is None


TestGateAgainstAServer = GateAgainstAServer.TestCase
TestGateAgainstAServer.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
