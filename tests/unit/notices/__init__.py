"""Tests of tally.accounts."""
