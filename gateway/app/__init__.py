"""Start, wiring and signals: where the settings become a running gateway."""
