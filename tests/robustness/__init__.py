"""Tests of a real server under kills, failing disks, hostile clients and concurrent load."""
