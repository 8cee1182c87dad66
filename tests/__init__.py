"""Tests of the server, by what they need: unit, api, model, robustness, browser, mutation, fuzz."""
