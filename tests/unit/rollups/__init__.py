"""Tests of tally.rollups."""
