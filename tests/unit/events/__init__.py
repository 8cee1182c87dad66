"""Tests of tally.events."""
