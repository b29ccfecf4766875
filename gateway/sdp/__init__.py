"""Session descriptions and offer/answer (RFC 8866, RFC 3264), without I/O."""
