#!/usr/bin/env bash
# Runs a command with the services that the tests need, and exits with its exit status.
#
#   scripts/with-services.sh [--in-memory] COMMAND [ARGUMENT…]
#
# Sets TEST_PG_URL, the URL of a PostgreSQL server in which tests create and drop databases. The
# first of:
#   1. the variable itself, if it is already set;
#   2. a temporary server on a free port, if PostgreSQL is installed, with its data in a temporary
#      folder. The script stops it and removes the folder at the end. The server does not wait for
#      the disk, so that tests take a third of the time;
#   3. a server without a password on 127.0.0.1:5432 (user postgres);
#   4. a temporary server, after the installation of Debian's package.
# Sets TEST_REDIS_URL, the URL of a Redis in which tests use separate prefixes. The first of: the
# variable itself; a server on 127.0.0.1:6379; a temporary server, installed if absent.
# TOLLGATE_OWN_SERVICES=1 ignores the servers on 127.0.0.1:5432 and 127.0.0.1:6379.
#
# With --in-memory, sets TMPDIR to a folder in memory, if /dev/shm has MIN_MEMORY_KIB and TMPDIR is
# not set: a database that syncs its files waits for the disk otherwise. The script removes the
# folder at the end. Benchmarks need the disk.
#
# Also installs, if absent: redis-server, which some tests start and stop themselves; libfaketime,
# which sets the clock of one process; ffmpeg and espeak-ng, which produce videos and speech; the
# font of captions; and the S3-compatible server of the tests (s3-server.sh).
set -euo pipefail

# The PostgreSQL version of Debian 12; its package archive has no other.
readonly PG_MAJOR=15
readonly LOCAL_URL=postgres://postgres@127.0.0.1:5432/postgres

readonly LOCAL_REDIS_URL=redis://127.0.0.1:6379

# Free memory in /dev/shm from which tests use it.
readonly MIN_MEMORY_KIB=$((4 << 20))

missing=()
memory_folder=
own_folder=
own_programs=
redis_folder=
redis_process=

say() { echo "with-services: $*" >&2; }

# Runs a command as a user that initdb accepts: initdb refuses root.
unprivileged() {
  if [ "$(id -u)" -eq 0 ]; then
    runuser -u postgres -- "$@"
  else
    "$@"
  fi
}

answers() {
  command -v psql >/dev/null &&
    PGCONNECT_TIMEOUT=5 psql --no-psqlrc --quiet --no-password --command 'select 1' "$1" >/dev/null 2>&1
}

find_programs() {
  local folder
  for folder in "/usr/lib/postgresql/$PG_MAJOR/bin" /usr/lib/postgresql/*/bin; do
    if [ -x "$folder/initdb" ]; then
      echo "$folder"
      return
    fi
  done
  # Other systems have the programs on the path.
  if command -v initdb >/dev/null; then
    dirname "$(command -v initdb)"
  fi
}

# Adds a Debian package to $missing. On systems without apt-get, prints the advice and exits.
require_package() {
  if ! command -v apt-get >/dev/null; then
    say "$2"
    exit 1
  fi
  missing+=("$1")
}

# Installs the packages of $missing with a single run of apt-get.
install_missing() {
  local root=()
  if [ ${#missing[@]} -eq 0 ]; then
    return
  fi
  if [ "$(id -u)" -ne 0 ]; then
    root=(sudo)
  fi
  say "installing ${missing[*]}"
  "${root[@]}" apt-get update -qq >&2
  "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >&2
}

# Starts a server in $own_folder on a free port and sets TEST_PG_URL.
start_own() {
  local programs port options attempt
  programs=$(find_programs)
  own_folder=$(mktemp -d "${TMPDIR:-/tmp}/tollgate-services.XXXXXX")
  if [ "$(id -u)" -eq 0 ]; then
    chown postgres "$own_folder"
  fi
  unprivileged "$programs/initdb" --pgdata "$own_folder/data" --username postgres --auth trust --encoding UTF8 \
    --no-locale --no-sync >"$own_folder/initdb.log"
  for attempt in 1 2 3 4 5; do
    # Below the range of the system's ephemeral ports.
    port=$((20000 + RANDOM % 10000))
    options="-p $port -c listen_addresses=127.0.0.1 -c unix_socket_directories=$own_folder/data -c max_connections=200 \
      -c fsync=off -c full_page_writes=off"
    if unprivileged "$programs/pg_ctl" start --silent --wait --pgdata "$own_folder/data" \
      --log "$own_folder/data/server.log" --options "$options"; then
      TEST_PG_URL=postgres://postgres@127.0.0.1:$port/postgres
      own_programs=$programs
      say "started a temporary PostgreSQL on port $port"
      return
    fi
    say "attempt $attempt: PostgreSQL did not start on port $port"
  done
  cat "$own_folder/data/server.log" >&2
  exit 1
}

# Succeeds if a Redis answers on this local port.
redis_answers() {
  local answer
  { exec 3<>"/dev/tcp/127.0.0.1/$1"; } 2>/dev/null || return 1
  printf 'PING\r\n' >&3
  read -r -t 5 answer <&3 || answer=
  exec 3>&-
  [ "${answer%$'\r'}" = +PONG ]
}

redis_program() {
  command -v redis-server || command -v valkey-server || true
}

# Starts a Redis in $redis_folder on a free port and sets TEST_REDIS_URL.
start_redis() {
  local port attempt moment
  redis_folder=$(mktemp -d "${TMPDIR:-/tmp}/tollgate-redis.XXXXXX")
  for attempt in 1 2 3 4 5; do
    port=$((20000 + RANDOM % 10000))
    "$(redis_program)" --port "$port" --bind 127.0.0.1 --save '' --appendonly no --dir "$redis_folder" \
      >"$redis_folder/server.log" 2>&1 &
    redis_process=$!
    for moment in $(seq 100); do
      if ! kill -0 "$redis_process" 2>/dev/null; then
        break
      fi
      if redis_answers "$port"; then
        TEST_REDIS_URL=redis://127.0.0.1:$port
        say "started a temporary Redis on port $port"
        return
      fi
      sleep 0.1
    done
    kill "$redis_process" 2>/dev/null || true
    say "attempt $attempt: Redis did not answer on port $port after $moment checks"
  done
  cat "$redis_folder/server.log" >&2
  exit 1
}

# Creates a folder in memory for temporary files, and sets TMPDIR.
use_memory() {
  local free
  free=$(df --output=avail --block-size=1K /dev/shm 2>/dev/null | tail -n 1) || free=0
  if [ -w /dev/shm ] && [ "${free:-0}" -ge "$MIN_MEMORY_KIB" ]; then
    memory_folder=$(mktemp -d /dev/shm/tollgate-tests.XXXXXX)
    # PostgreSQL runs as another user.
    chmod 755 "$memory_folder"
    export TMPDIR=$memory_folder
    say "temporary files are in $memory_folder"
  fi
}

# shellcheck disable=SC2317 # The trap calls it.
stop_own() {
  if [ -n "$redis_process" ]; then
    kill "$redis_process" 2>/dev/null || true
    wait "$redis_process" 2>/dev/null || true
  fi
  if [ -n "$redis_folder" ]; then
    rm -rf "$redis_folder"
  fi
  if [ -n "$own_programs" ]; then
    unprivileged "$own_programs/pg_ctl" stop --silent --mode immediate --pgdata "$own_folder/data" || true
  fi
  if [ -n "$own_folder" ]; then
    rm -rf "$own_folder"
  fi
  if [ -n "$memory_folder" ]; then
    rm -rf "$memory_folder"
  fi
}

in_memory=
if [ "${1:-}" = --in-memory ]; then
  in_memory=1
  shift
fi
if [ $# -eq 0 ]; then
  echo "usage: scripts/with-services.sh [--in-memory] COMMAND [ARGUMENT…]" >&2
  exit 2
fi
trap stop_own EXIT
if [ -n "$in_memory" ] && [ -z "${TMPDIR:-}" ]; then
  use_memory
fi
has_server=
if [ -n "${TEST_PG_URL:-}" ]; then
  say "using the PostgreSQL of TEST_PG_URL"
  has_server=1
elif [ -z "$(find_programs)" ] && [ "${TOLLGATE_OWN_SERVICES:-0}" != 1 ] && answers "$LOCAL_URL"; then
  TEST_PG_URL=$LOCAL_URL
  say "using the PostgreSQL on 127.0.0.1:5432"
  has_server=1
elif [ -z "$(find_programs)" ]; then
  require_package "postgresql-$PG_MAJOR" "install PostgreSQL $PG_MAJOR or newer, or set TEST_PG_URL"
fi
if [ -z "$(redis_program)" ]; then
  require_package redis-server "install Redis 6.2 or newer, or Valkey"
fi
if ! compgen -G '/usr/lib/*/faketime/libfaketimeMT.so.1' >/dev/null; then
  require_package libfaketime "install libfaketime in Debian's location: /usr/lib/…/faketime"
fi
for program in ffmpeg espeak-ng; do
  if ! command -v "$program" >/dev/null; then
    require_package "$program" "install $program"
  fi
done
if ! compgen -G '/usr/share/fonts/*/dejavu/DejaVuSans-Bold.ttf' >/dev/null; then
  require_package fonts-dejavu-core "install DejaVu Sans in Debian's location: /usr/share/fonts/truetype/dejavu"
fi
install_missing
if [ -z "$has_server" ]; then
  start_own
fi
if [ -n "${TEST_REDIS_URL:-}" ]; then
  say "using the Redis of TEST_REDIS_URL"
elif [ "${TOLLGATE_OWN_SERVICES:-0}" != 1 ] && redis_answers 6379; then
  TEST_REDIS_URL=$LOCAL_REDIS_URL
  say "using the Redis on 127.0.0.1:6379"
else
  start_redis
fi
"$(dirname "${BASH_SOURCE[0]}")/s3-server.sh"
export TEST_PG_URL TEST_REDIS_URL
status=0
"$@" || status=$?
exit "$status"
