#!/usr/bin/env bash
# Runs the loopback comparison, including PostgreSQL and Redis, in a new database that it drops at
# the end.
#
#   scripts/with-services.sh scripts/bench.sh PROGRAM [ARGUMENT…]
set -euo pipefail

program=$1
shift
database=tollgate_bench_$$

# shellcheck disable=SC2317 # The trap calls it.
drop() { psql --no-psqlrc --quiet --command "drop database if exists $database with (force)" "$TEST_PG_URL"; }

trap drop EXIT
psql --no-psqlrc --quiet --command "create database $database" "$TEST_PG_URL"
status=0
"$program" --postgres "${TEST_PG_URL%/*}/$database" --redis "$TEST_REDIS_URL" "$@" || status=$?
exit "$status"
