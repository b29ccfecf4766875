"""Telephone lines behind one interface."""
