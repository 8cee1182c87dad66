"""Tests of one package or module at a time, in directories named like the packages of tally."""
