"""What people see and touch, in a real Chromium against the real server."""
