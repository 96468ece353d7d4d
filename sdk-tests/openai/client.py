"""The official OpenAI client, configured for the server under test."""

from __future__ import annotations

from typing import Any

import openai

from harness import BASE_URL, KEY


def client(**settings: Any) -> openai.OpenAI:
    return openai.OpenAI(**({"base_url": BASE_URL, "api_key": KEY, "max_retries": 0, "timeout": 60} | settings))


def async_client(**settings: Any) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(**({"base_url": BASE_URL, "api_key": KEY, "max_retries": 0, "timeout": 60} | settings))


def user(text: str) -> list[Any]:
    return [{"role": "user", "content": text}]
