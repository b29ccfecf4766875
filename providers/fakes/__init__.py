"""
Fakes that ship: a provider in this process and an OpenAI Realtime server, one script for both.

Nothing here imports ``providers.openai`` or the gateway: what they get wrong must not be hidden by
a fake that got it wrong in the same way.
"""
