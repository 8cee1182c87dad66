"""Tally: a self-hosted analytics server. The modules here are the vocabulary that every package may import.

They import no package: settings, errors, clock, timestamps, time ranges, rate limits, resources. The layers are in
tests/unit/test_architecture.py and docs/architecture.md.
"""
