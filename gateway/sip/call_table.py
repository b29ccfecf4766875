"""The calls of a user agent, found by handle, by dialog, and by the INVITE that began them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TypeAlias

from gateway.sip.call import Call, CallState
from gateway.sip.dialog import DialogKey, dialog_key
from gateway.sip.incoming import IncomingCall
from gateway.sip.message import Request, Response
from gateway.sip.transactions import Served

_InviteKey: TypeAlias = tuple[str, str, int]


class CallTable:
    """
    Everything is found without a search: thousands of idle calls cost a new one nothing.

    A call stays until :meth:`forget`, with what its BYE or transfer still has to do.
    """

    def __init__(self) -> None:
        self._calls: dict[str, Call] = {}
        self._dialogs: dict[DialogKey, Call] = {}
        self._invites: dict[_InviteKey, IncomingCall] = {}
        self._hosts: dict[str, str] = {}
        self._at_host: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._calls)

    def __iter__(self) -> Iterator[Call]:
        """Walk over the calls as they are now, whatever happens to them meanwhile."""
        return iter(list(self._calls.values()))

    @property
    def active(self) -> int:
        """Calls that have not ended."""
        return sum(call.state is not CallState.ENDED for call in self._calls.values())

    def add(self, call: Call) -> None:
        self._calls[call.handle] = self._dialogs[call.dialog.key] = call
        if isinstance(call, IncomingCall):
            self._invites[_invite_key(call.invite)] = call

    def forget(self, call: Call) -> bool:
        """Remove a call; ``False`` when it is not here any more."""
        if self._calls.pop(call.handle, None) is None:
            return False
        self._leave(call)
        self._dialogs.pop(call.dialog.key, None)
        if isinstance(call, IncomingCall):
            self._invites.pop(_invite_key(call.invite), None)
        return True

    def locate(self, call: Call) -> None:
        """Note where the peer of a call is; its last request may have come from elsewhere."""
        host = call.flow.remote[0]
        if call.handle in self._calls and self._hosts.get(call.handle) != host:
            self._leave(call)
            self._hosts[call.handle] = host
            self._at_host[host] += 1

    def is_at(self, host: str) -> bool:
        """Whether the peer of a call is at an IP address."""
        return host in self._at_host

    def _leave(self, call: Call) -> None:
        host = self._hosts.pop(call.handle, None)
        if host is not None:
            self._at_host[host] -= 1
            if not self._at_host[host]:
                del self._at_host[host]

    def get(self, handle: str) -> Call | None:
        return self._calls.get(handle)

    def of_request(self, request: Request) -> Call | None:
        """Return the call in whose dialog a request of the peer is."""
        call = self._dialogs.get(dialog_key(request))
        return call if call is not None and call.knows(request.from_.tag) else None

    def of_response(self, response: Response) -> Call | None:
        """Return the call whose INVITE a response answers."""
        return self._dialogs.get((response.call_id, response.from_.tag))

    def begun_by(self, invite: Request) -> bool:
        """Whether an INVITE opened a call whose transaction is over by now: a very late copy."""
        return _invite_key(invite) in self._invites

    def local_tag(self, invite: Served) -> str:
        """Return our tag in the responses to an INVITE; empty when it made no call."""
        call = self._invites.get(_invite_key(invite.request))
        return call.dialog.local_tag if call is not None and call.owns(invite) else ""


def _invite_key(invite: Request) -> _InviteKey:
    return invite.call_id, invite.from_.tag, invite.cseq.number
