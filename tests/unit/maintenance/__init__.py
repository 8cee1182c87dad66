"""Tests of tally.maintenance."""
