"""Prints the results of the clients as a table, and fails when a case failed or was not reported.

Usage: table.py [--no-skips] RESULTS.jsonl CLIENT…
"""

from __future__ import annotations

import json
import sys


def main(arguments: list[str]) -> int:
    no_skips = arguments[:1] == ["--no-skips"]
    path, *clients = arguments[1:] if no_skips else arguments
    with open(path, encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    results = {(row["case"], row["client"]): row for row in rows}
    cases = list(dict.fromkeys(row["case"] for row in rows))

    def cell(case: str, client: str) -> str:
        row = results.get((case, client))
        if row is None:
            return "MISSING"
        return row["result"].upper() if is_bad(row["result"]) else row["result"]

    def is_bad(result: str) -> bool:
        return result == "fail" or (result == "skip" and no_skips)

    width = max([len(case) for case in cases] + [4])
    print(f"{'case':<{width}}  " + "  ".join(clients))
    for case in cases:
        print(f"{case:<{width}}  " + "  ".join(f"{cell(case, client):<{len(client)}}" for client in clients).rstrip())
    cells = [(case, client, cell(case, client)) for case in cases for client in clients]
    print()
    for case, client, result in cells:
        if result.isupper() and result != "MISSING" or result == "skip":
            print(f"{result}  {client}  {case}: {results[case, client]['detail']}")
    for client in clients:
        unreported = [case for case, other, result in cells if other == client and result == "MISSING"]
        if unreported:
            print(f"MISSING  {client} did not report {len(unreported)} cases, the first: {unreported[0]}")
    bad = sum(result.isupper() for _, _, result in cells)
    passed = sum(result == "pass" for _, _, result in cells)
    print(f"{passed} of {len(cells)} passed, {bad} failed, {len(cells) - passed - bad} skipped")
    return 1 if bad or not passed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
