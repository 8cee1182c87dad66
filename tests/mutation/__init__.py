"""Faults planted in a copy of the code, each of which a test must detect."""
