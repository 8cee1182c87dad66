"""Tests of tally.ingest."""
