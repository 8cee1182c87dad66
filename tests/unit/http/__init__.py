"""Tests of tally.http."""
