"""
The demo's caller: a small SIP phone of its own.

It shares no code with the gateway, so that a mistake of the gateway cannot hide in it: what it
reports is what arrived on its sockets.
"""
