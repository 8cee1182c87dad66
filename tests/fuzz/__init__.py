"""Fuzz tests of the parsers of untrusted input: run.py runs a fuzzer, test_corpus.py replays its inputs without one."""
