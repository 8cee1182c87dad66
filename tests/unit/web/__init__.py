"""Tests of tally.web."""
