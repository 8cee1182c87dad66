"""Tests of tally.storage."""
