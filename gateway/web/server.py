"""Uvicorn as one task among the gateway's others: it takes no signals and stops when told."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from fastapi import FastAPI

from config.fields import HttpListen

_BACKLOG = 128
_STOP_AFTER_S = 2
"""Requests that are not answered so long after the stop are cut off."""


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the gateway, which drains calls before this server may stop."""
        yield


class WebServer:
    """
    Serves an application until :meth:`stop`.

    Args:
        app: The application.
        listen: Where; port 0 takes a free one, see :attr:`address`.
    """

    def __init__(self, app: FastAPI, listen: HttpListen) -> None:
        self._listen = listen
        self._socket: socket.socket | None = None
        self._server = _Server(
            uvicorn.Config(
                app,
                http="httptools",
                ws="none",
                lifespan="off",
                loop="none",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_graceful_shutdown=_STOP_AFTER_S,
            )
        )

    def bind(self) -> HttpListen:
        """
        Bind the address and return it, with the port that was really taken.

        Raises ``OSError`` when it is taken or not ours; done before calls are accepted, so that a
        gateway whose health cannot be asked does not start.
        """
        family = socket.AF_INET6 if ":" in self._listen.host else socket.AF_INET
        bound = socket.socket(family, socket.SOCK_STREAM)
        try:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.bind((self._listen.host, self._listen.port))
            bound.listen(_BACKLOG)
            bound.setblocking(False)
        except OSError:
            bound.close()
            raise
        self._socket = bound
        return self.address

    @property
    def address(self) -> HttpListen:
        """The bound address."""
        assert self._socket is not None, "bind() comes first"
        return HttpListen(self._listen.host, self._socket.getsockname()[1])

    async def run(self) -> None:
        """Serve until :meth:`stop` or until the task is cancelled; closes the socket."""
        if self._socket is None:
            self.bind()
        assert self._socket is not None
        try:
            await self._server.serve(sockets=[self._socket])
        finally:
            await self._close()

    def stop(self) -> None:
        """Take no more requests; :meth:`run` returns when the last one is answered."""
        self._server.should_exit = True

    async def _close(self) -> None:
        # A cancelled serve() leaves its listeners and connections open.
        for server in getattr(self._server, "servers", []):
            server.close()
        for connection in list(self._server.server_state.connections):
            connection.shutdown()
        if self._socket is not None:
            self._socket.close()
        await asyncio.sleep(0)
