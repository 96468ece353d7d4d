"""Runs the cases with the installed version of the official client. Settings: see
../harness/harness.py."""

from __future__ import annotations

import harness
import openai

# Importing registers the cases, in the order in which they run.
import cases_chat  # noqa: F401, I001
import cases_stream  # noqa: F401
import cases_responses  # noqa: F401
import cases_research  # noqa: F401
import cases_completions  # noqa: F401
import cases_embeddings  # noqa: F401
import cases_decisions  # noqa: F401
import cases_videos  # noqa: F401
import cases_audio  # noqa: F401
import cases_realtime  # noqa: F401
import cases_files  # noqa: F401
import cases_batches  # noqa: F401
import cases_errors  # noqa: F401
import cases_connections  # noqa: F401

if __name__ == "__main__":
    harness.main("openai-python", openai.__version__)
