"""Modules that several tests share."""
