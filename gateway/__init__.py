"""The gateway: calls, and everything that joins lines, models and tools."""
