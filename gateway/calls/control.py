"""The call's side of a tool's bounded requests (V-14)."""

from __future__ import annotations

from gateway.dialogue.policy import CallPolicy
from tools.types import CallUpdate, EndRequest, TerminalRequest, TransferRequest


class CallRequests:
    """
    Satisfies :class:`tools.ports.CallControl`.

    A terminal request is claimed here, so that at most one wins; the bridge carries it out after
    the batch. While a colleague is asked, it is the colleague's decision instead. An update is not taken
    yet: the tool runtime brings it.
    """

    def __init__(self, policy: CallPolicy) -> None:
        self._policy = policy

    def request_end(self, request: EndRequest) -> bool:
        return self._claim(request)

    def request_transfer(self, request: TransferRequest) -> bool:
        return self._claim(request)

    def request_update(self, update: CallUpdate) -> str:
        return "unsupported"

    def _claim(self, request: TerminalRequest) -> bool:
        return self._policy.decide(request) if self._policy.consulting else self._policy.claim(request)
