"""SIP (RFC 3261), without I/O."""
