"""Prompts and parameters of the checks with the tiny model."""

MESSAGES = [{"role": "user", "content": "What is the number of the house?"}]
SCHEMA = {
    "type": "object",
    "properties": {"open": {"type": "boolean"}, "light": {"enum": ["green", "white"]}},
    "required": ["open", "light"],
    "additionalProperties": False,
}
# Token 4 ends a turn, token 5 opens a tool call (make_tiny_model.py).
NEVER_END = {"4": -100}
CALL_ONE_TOOL = {"5": 50, "4": 100}
TOOL = {"type": "function", "function": {"name": "get_number", "parameters": SCHEMA}}
