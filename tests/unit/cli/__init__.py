"""Tests of tally.cli."""
