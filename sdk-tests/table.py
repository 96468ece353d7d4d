"""Prints a table of results for each group of clients. Fails if a case failed or was not reported.

Usage: table.py [--no-skips] [--some] RESULTS.jsonl GROUP=CLIENT…

All clients of a group must report the same cases. With --no-skips, a skipped case is a failure.
With --some, the run was limited to some cases, and a group may have none of them.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from typing import Any

Rows = dict[tuple[str, str], dict[str, Any]]


def main(arguments: list[str]) -> int:
    options = [argument for argument in arguments if argument.startswith("--")]
    path, *members = [argument for argument in arguments if argument not in options]
    with open(path, encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    results: Rows = {(row["case"], row["client"]): row for row in rows}
    groups: dict[str, list[str]] = {}
    for member in members:
        group, _, client = member.partition("=")
        groups.setdefault(group, []).append(client)
    if "--some" in options:
        there = {row["client"] for row in rows}
        groups = {group: clients for group, clients in groups.items() if there & set(clients)}
    no_skips = "--no-skips" in options
    verdicts = [print_group(group, clients, rows, results, no_skips) for group, clients in groups.items()]
    passed, failed, skipped = (sum(counts) for counts in zip(*verdicts, (0, 0, 0)))
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed or not passed else 0


def print_group(
    group: str, clients: list[str], rows: list[dict[str, Any]], results: Rows, no_skips: bool
) -> tuple[int, int, int]:
    cases = list(dict.fromkeys(row["case"] for row in rows if row["client"] in clients))

    def cell(case: str, client: str) -> str:
        row = results.get((case, client))
        if row is None:
            return "MISSING"
        is_bad = row["result"] == "fail" or (row["result"] == "skip" and no_skips)
        return row["result"].upper() if is_bad else row["result"]

    cells = [(case, client, cell(case, client)) for case in cases for client in clients]
    width = max(len(text) for text in [*cases, group])
    print(f"{group:<{width}}  " + "  ".join(clients))
    for case in cases:
        print(f"{case:<{width}}  " + "  ".join(f"{cell(case, client):<{len(client)}}" for client in clients).rstrip())
    print()
    skipped = Counter(results[row[:2]]["detail"] for row in cells if row[2] in ("skip", "SKIP"))
    for detail, count in skipped.items():
        print(f"skipped {count} times: {detail}")
    for case, client, result in cells:
        if result == "FAIL":
            print(f"{result}  {client}  {case}: {results[case, client]['detail']}")
    for client in clients:
        unreported = [case for case, other, result in cells if other == client and result == "MISSING"]
        if unreported or not cases:
            print(f"MISSING  {client} did not report {len(unreported)} cases, the first: {(unreported or ['any'])[0]}")
    if any(result != "pass" for _, _, result in cells):
        print()
    # A client that exited before its first case is also a failure.
    failed = sum(result.isupper() for _, _, result in cells) + (not cases) * len(clients)
    passed = sum(result == "pass" for _, _, result in cells)
    return passed, failed, len(cells) - passed - sum(result.isupper() for _, _, result in cells)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
