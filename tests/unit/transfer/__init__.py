"""Tests of tally.transfer."""
