"""Typed decisions. The older line of the client lacks them, so the cases send the same body and
read JSON."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import openai

from client import client
from harness import PNG, case, check, equal, raises

DECISIONS = "/v1/decisions"
DECIDER = "sim/decide"
IS_KNOWN = hasattr(openai.OpenAI, "decisions")
TRUTH = (
    "[[decide refund yes=0.9 no=0.1]] [[decide team billing=0.7 tech=0.2 sales=0.1]] "
    "[[decide urgent true=0.2 false=0.8]] [[decide level low=0.1 middle=0.2 high=0.7]]"
)
REFUND = {"type": "predicate", "name": "refund", "instructions": "Is money asked for?"}
TEAM = {
    "type": "choice",
    "name": "team",
    "instructions": "Who answers?",
    "choices": [{"value": "billing", "description": "Payments"}, {"value": "tech"}, {"value": "sales"}],
}
URGENT = {
    "type": "choice",
    "name": "urgent",
    "instructions": "Now?",
    "choices": [{"value": True}, {"value": False}],
}
LEVEL = {
    "type": "score",
    "name": "level",
    "instructions": "How bad is it?",
    "levels": [{"label": "low"}, {"label": "middle", "description": "Not nice."}, {"label": "high"}],
}
NEXT = {
    "type": "tool",
    "name": "next",
    "instructions": "What now? [[decide next pay=0.8 wait=0.15 none=0.05 duplicate=0.9 other=0.1]]",
    "tools": [
        {
            "type": "function",
            "function": {
                "name": "pay",
                "parameters": {"type": "object", "properties": {"reason": {"enum": ["duplicate", "other"]}}},
            },
        },
        {"type": "function", "function": {"name": "wait", "parameters": {"type": "object"}}},
    ],
}


def decide(*questions: Any, input: Any = f"I was charged twice. {TRUTH}", model: str = DECIDER) -> Any:
    body = {"model": model, "input": input, "questions": list(questions)}
    if IS_KNOWN:
        return client().decisions.create(**body)
    return named(client().post("/decisions", body=body, cast_to=object))


def named(value: Any) -> Any:
    """Returns JSON values with objects as namespaces, whose members are attributes."""
    if isinstance(value, dict):
        return SimpleNamespace(**{name: named(member) for name, member in value.items()})
    return [named(item) for item in value] if isinstance(value, list) else value


def near(value: float, truth: float, what: str) -> None:
    check(abs(value - truth) < 1e-6, f"{what}: {value}, expected {truth}")


@case("decisions", "simulator", "gateway", DECISIONS)
def decisions() -> None:
    answer = decide(REFUND, TEAM, URGENT, LEVEL)
    equal(answer.model, DECIDER, "model")
    refund, team, urgent, level = answer.answers
    equal([one.name for one in answer.answers], ["refund", "team", "urgent", "level"], "names")
    equal([one.type for one in answer.answers], ["predicate", "choice", "choice", "score"], "types")
    near(refund.probability, 0.9, "probability")
    equal((team.choice, [one.value for one in team.probabilities]), ("billing", ["billing", "tech", "sales"]), "choice")
    near(team.confidence, (0.7 - 1 / 3) / (1 - 1 / 3), "confidence")
    equal((urgent.choice, [one.value for one in urgent.probabilities]), (False, [True, False]), "choice of yes and no")
    near(level.score, 1.6, "score")
    equal([(one.value, one.label) for one in level.probabilities], [(0, "low"), (1, "middle"), (2, "high")], "levels")
    used = answer.usage
    check(used.input_tokens > 0 and used.total_tokens == used.input_tokens, f"usage is {used}")
    equal((used.output_tokens, used.output_tokens_details.reasoning_tokens), (0, 0), "output")
    check(float(used.cost) > 0, "cost")


@case("decisions of functions", "simulator", "gateway", DECISIONS)
def decisions_of_functions() -> None:
    [answer] = decide(NEXT).answers
    equal((answer.type, answer.tool), ("tool", "pay"), "tool")
    reason = answer.arguments["pay"]["reason"] if IS_KNOWN else vars(vars(answer.arguments.pay)["reason"])
    equal(reason["value"], "duplicate", "argument")


@case("decisions about messages and images", "simulator", "gateway", DECISIONS)
def decisions_about_pictures() -> None:
    image = {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}"}
    text = {"type": "input_text", "text": f"See the image. {TRUTH}"}
    message = {"role": "user", "content": [text, image]}
    alone = decide(REFUND, input=[{"role": "user", "content": [text]}])
    both = decide(REFUND, input=[message])
    near(both.answers[0].probability, 0.9, "probability")
    check(both.usage.input_tokens > alone.usage.input_tokens, "the image costs nothing")


@case("decisions that are refused", "simulator", "gateway", DECISIONS)
def decisions_refused() -> None:
    refused = {"type": "predicate", "name": "secret", "instructions": "[[decide secret refuse]] Is it?"}
    failed = {"type": "predicate", "instructions": "[[decide * fail=upstream_error]] Is it?"}
    first, second, third = decide(REFUND, refused, failed).answers
    near(first.probability, 0.9, "the one that is answered")
    equal((second.type, second.name), ("refusal", "secret"), "refusal")
    equal((third.type, third.name), ("refusal", None), "failure")


@case("decisions errors", "simulator", "gateway", "BROKE_KEY", DECISIONS)
def decisions_errors() -> None:
    def failing(code: str, kind: type[openai.APIStatusError], param: str | None, *questions: Any, **more: Any) -> None:
        error = raises(kind, lambda: decide(*questions, **more))
        equal((error.code, error.param), (code, param), code)

    one = TEAM | {"choices": [{"value": "billing"}]}
    failing("invalid_parameter", openai.BadRequestError, "questions[1].choices", REFUND, one)
    failing("invalid_parameter", openai.BadRequestError, "questions", *[REFUND | {"name": f"q{n}"} for n in range(129)])
    failing("invalid_parameter", openai.BadRequestError, "questions[1].name", REFUND, REFUND)
    failing("unsupported_endpoint", openai.BadRequestError, "model", REFUND, model="sim/embeddings")
    failing("model_not_found", openai.NotFoundError, "model", REFUND, model="sim/none")
    failing("rate_limit_exceeded", openai.RateLimitError, None, REFUND, input="[[sim error=rate_limit_exceeded]]")


@case("decisions that act", "simulator", "gateway", DECISIONS)
def decisions_that_act() -> None:
    done: list[str] = []

    def choose(observation: str) -> None:
        [answer] = decide(
            {"type": "choice", "name": "next_action", "instructions": "Select.",
             "choices": [{"value": "open"}, {"value": "done"}]},
            input=observation,
        ).answers
        done.append(answer.choice)

    script = "[[decide next_action open=0.9 done=0.1]]"
    if not IS_KNOWN:
        choose(script)
        equal(done, ["open"], "what was done")
        return
    from openai.lib.decisions_tool_runner import DecisionsToolRunner

    runner = DecisionsToolRunner(
        observe=lambda: "The door is open." if done else f"The door is shut. {script}",
        candidates=lambda _seen: [
            {"id": "done", "description": "The door is open.", "done": True},
            *([] if done else [{"id": "open", "description": "Opens it.", "execute": lambda: done.append("open")}]),
        ],
    )
    result = runner.run(client(), {"model": DECIDER, "input": "Open the door."})
    equal((result["status"], result["completed_candidate_ids"], done), ("unverified", ["open"], ["open"]), "run")
