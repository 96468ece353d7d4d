"""Runs the cases with whatever version of the official client this Python has. Settings: see harness.py."""

from __future__ import annotations

import sys

import harness

# Importing registers the cases, in the order in which they run.
import cases_chat  # noqa: F401, I001
import cases_stream  # noqa: F401
import cases_embeddings  # noqa: F401
import cases_errors  # noqa: F401
import cases_connections  # noqa: F401

if __name__ == "__main__":
    pattern = sys.argv[1] if len(sys.argv) > 1 else ""
    sys.exit(1 if harness.run(pattern) else 0)
