"""Tests of tally.reports."""
