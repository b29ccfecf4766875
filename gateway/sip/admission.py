"""What a request must pass before a call, or the answer to a ping, is made of it."""

from __future__ import annotations

from collections.abc import Callable

from gateway.sip.auth_server import AuthServer, needs_proof
from gateway.sip.checks import Refusal, inspect
from gateway.sip.flow import Flow
from gateway.sip.message import Request
from gateway.sip.policy import PeerPolicy, Policies, same_for_all
from gateway.sip.session_timer import judge as judge_session
from gateway.sip.settings import UaSettings


class Admission:
    """
    Judges requests other than ACK and CANCEL, in the order of RFC 3261, section 8.2.

    Args:
        settings: Of the user agent.
        token: Returns a new unguessable token.
    """

    def __init__(self, settings: UaSettings, token: Callable[[], str]) -> None:
        self._settings = settings
        self._auth = AuthServer(token)
        self.policies: Policies = same_for_all
        self.draining = False

    @property
    def retry_after(self) -> tuple[tuple[str, str], ...]:
        """The header of our 503."""
        return (("Retry-After", str(self._settings.retry_after)),)

    def policy(self, request: Request, flow: Flow) -> PeerPolicy:
        """Return how the peer that sent a request outside of a call is treated."""
        return self.policies(flow, request.uri.user)

    def judge(self, request: Request, policy: PeerPolicy, *, merged: bool, now: float) -> Refusal | None:
        """
        Judge any request.

        Args:
            request: As the parser accepted it.
            policy: Of who sent it.
            merged: Whether it came before on another path.
            now: The present time in seconds.
        """
        if (refusal := inspect(request, policy)) is not None:
            return refusal
        if merged:
            return Refusal(482, "it came before on another path")
        if policy.proof is not None and needs_proof(request):
            return self._auth.judge(request, policy.proof, now=now)
        return None

    def judge_new(self, request: Request, policy: PeerPolicy, *, known: bool, dialogs: int) -> Refusal | None:
        """Judge an INVITE or OPTIONS outside of a dialog."""
        if self.draining:
            return Refusal(503, "draining", self.retry_after)
        if request.method != "INVITE":
            return None
        if known:
            return Refusal(482, "its call is already up")
        if dialogs >= self._settings.max_dialogs:
            return Refusal(503, "too many dialogs", self.retry_after)
        return judge_session(request, policy.terms(self._settings.session))
