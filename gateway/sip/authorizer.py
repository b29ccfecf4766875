"""The client of digest authentication: which challenge is answered with what (RFC 3261, section 22)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from gateway.sip import digest
from gateway.sip.digest import Challenge
from gateway.sip.message import Request, Response
from gateway.sip.target import Credentials
from gateway.sip.text import quote, unquote

MAX_TRIES: Final = 3
"""How often one request is sent again with credentials; a server that still refuses will go on so."""
MAX_REALMS: Final = 4
"""Realms whose challenges are remembered: each proxy on the way may have its own."""

_HEADERS: Final[Mapping[int, tuple[str, str]]] = MappingProxyType(
    {
        401: ("WWW-Authenticate", "Authorization"),
        407: ("Proxy-Authenticate", "Proxy-Authorization"),
    }
)


def is_challenge(response: Response) -> bool:
    """Whether a response asks for credentials."""
    return response.status in _HEADERS


@dataclass(slots=True)
class _Session:
    """A challenge that is being answered, with the count of its nonce."""

    challenge: Challenge
    cnonce: str
    """One for the nonce's whole life, which ``-sess`` needs (RFC 7616, section 3.4.2)."""
    used: int = 0


class Tries:
    """How one request fares: what it was sent with, so that nobody is asked for ever."""

    def __init__(self) -> None:
        self.count = 0
        self.answered: set[tuple[str, str]] = set()
        """Header and realm that this request answered with a nonce made for it."""


class Authorizer:
    """
    The credentials of one call, registration or request, and the nonces that its peers gave.

    Once challenged, every later request carries credentials at once, with the last nonce.

    Args:
        credentials: ``None`` answers no challenge.
        token: Returns a new unguessable token, for the cnonce.
    """

    def __init__(self, credentials: Credentials | None, token: Callable[[], str]) -> None:
        self._credentials = credentials
        self._token = token
        self._sessions: dict[tuple[str, str], _Session] = {}

    def __repr__(self) -> str:
        return f"<Authorizer of {len(self._sessions)} realms>"

    def use(self, credentials: Credentials) -> None:
        """Answer challenges with these from now on."""
        if credentials != self._credentials:
            self._credentials = credentials
            self._sessions.clear()

    def take(self, response: Response, tries: Tries) -> bool:
        """
        Take a 401 or 407; return whether the request is worth sending again.

        A realm that got an answer to a nonce of its own and asks again has refused it, unless it
        says ``stale``. The first challenge that we support wins in each realm (RFC 8760, section 2.4).
        """
        credentials = self._credentials
        if credentials is None or not is_challenge(response) or tries.count >= MAX_TRIES:
            return False
        answerable = False
        for asks, answers in _HEADERS.values():
            taken: set[str] = set()
            for challenge in digest.challenges(response.headers, asks):
                if challenge.realm in taken or not _allowed(credentials, challenge):
                    continue
                taken.add(challenge.realm)
                key = answers, challenge.realm
                if key in tries.answered and not challenge.stale:
                    return False
                if key not in self._sessions and len(self._sessions) >= MAX_REALMS:
                    continue
                tries.answered.add(key)
                self._sessions[key] = _Session(challenge, self._token())
                answerable = True
        tries.count += answerable
        return answerable

    def headers(self, request: Request) -> list[tuple[str, str]]:
        """Return the credentials for a request that is about to be sent; counts each nonce up."""
        if self._credentials is None:
            return []
        return [
            (name, self._answer(self._credentials, session, request))
            for (name, _), session in self._sessions.items()
        ]

    def _answer(self, credentials: Credentials, session: _Session, request: Request) -> str:
        challenge = session.challenge
        session.used += 1
        username = quote(credentials.username)[1:-1]
        response = digest.response(
            challenge.algorithm,
            secret=digest.secret(
                challenge.algorithm,
                username=username,
                realm=challenge.realm,
                password=credentials.password,
            ),
            method=request.method,
            uri=request.uri,
            nonce=challenge.nonce,
            nc=session.used,
            cnonce=session.cnonce,
            qop=challenge.qop,
            body=request.body,
        )
        params = [
            ("username", username, True),
            ("realm", challenge.realm, True),
            ("nonce", challenge.nonce, True),
            ("uri", request.uri, True),
            ("response", response, True),
        ]
        if challenge.names_algorithm:
            params.append(("algorithm", challenge.algorithm.value, False))
        if challenge.qop or challenge.algorithm.sess:
            params.append(("cnonce", session.cnonce, True))
        if challenge.qop:
            params += [("qop", challenge.qop, False), ("nc", f"{session.used:08x}", False)]
        if challenge.opaque is not None:
            params.append(("opaque", challenge.opaque, True))
        return digest.write(params)


def _allowed(credentials: Credentials, challenge: Challenge) -> bool:
    return credentials.realm is None or credentials.realm == unquote(f'"{challenge.realm}"')
