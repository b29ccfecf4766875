"""Sockets, ports and pacing."""
