"""One call's life."""
