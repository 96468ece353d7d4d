#!/usr/bin/env bash
# Starts several real model servers with tiny models and checks a gateway in front of them.
set -euo pipefail

usage() {
    cat <<'TEXT'
usage: sdk-tests/real-upstream/servers.sh --gateway-binary PATH

Installs vLLM (for CPUs), llama.cpp's server (the wheel xllamacpp) and `transformers serve`, and generates tiny models
with random weights. Starts each server on a free loopback port, runs `PATH serve` in front of them, and calls it with
the SDKs of OpenAI, Anthropic and Google. A server that cannot start is skipped, and the output names it.

All files are under .tools/servers (6 GB, from PyPI). Requires python3.11 with venv, and curl.
Exit codes: 0 success, 1 failure, 2 invalid arguments, 3 failed checks.
TEXT
}

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
tools="${REAL_SERVERS_DIR:-$here/../../.tools/servers}"
readonly here tools

gateway_binary=''
while (($#)); do
    case "$1" in
    --gateway-binary)
        gateway_binary=${2:-}
        shift
        ;;
    -h | --help)
        usage
        exit 0
        ;;
    *)
        usage >&2
        exit 2
        ;;
    esac
    shift
done
if [[ ! -x "$gateway_binary" ]]; then
    echo "servers.sh: --gateway-binary needs the path of an executable file" >&2
    exit 2
fi

# vLLM detects its build from the distribution `vllm`, but the CPU build has another name. Adds
# metadata under that name.
name_vllm() {
    local packages
    packages=$("$tools/venv/bin/python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
    mkdir -p "$packages/vllm-0.32.0+cpu.dist-info"
    printf 'Metadata-Version: 2.1\nName: vllm\nVersion: 0.32.0+cpu\n' >"$packages/vllm-0.32.0+cpu.dist-info/METADATA"
}

install() {
    if ! cmp -s "$here/requirements-servers.txt" "$tools/requirements.installed"; then
        python3 -m venv "$tools/venv"
        nice "$tools/venv/bin/pip" install --quiet --disable-pip-version-check --no-deps \
            -r "$here/requirements-servers.txt"
        name_vllm
        cp "$here/requirements-servers.txt" "$tools/requirements.installed"
    fi
}

make_models() {
    "$tools/venv/bin/python" "$here/make_tiny_model.py" "$tools/tiny.gguf"
    "$tools/venv/bin/python" "$here/make_tiny_hf_model.py" "$tools/tiny" 2>/dev/null
}

free_port() {
    "$tools/venv/bin/python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

# Starts a server and waits until it answers. Adds it to `servers`, or prints that it is skipped.
start() {
    local name=$1 port=$2 path=$3
    shift 3
    local log="$scratch/$name.log" deadline=$((SECONDS + 300))
    env HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1 VLLM_CPU_KVCACHE_SPACE=1 VLLM_NO_USAGE_STATS=1 "$@" >"$log" 2>&1 &
    local pid=$!
    pids+=("$pid")
    until curl --silent --fail --output /dev/null "http://127.0.0.1:$port$path"; do
        if ! kill -0 "$pid" 2>/dev/null || ((SECONDS > deadline)); then
            echo "skip  $name: it did not start; its log ends: $(tail -n 1 "$log")"
            return
        fi
        sleep 0.5
    done
    servers+=("$name=http://127.0.0.1:$port/v1")
}

stop() {
    local pid
    for pid in "${pids[@]}"; do
        kill "$pid" 2>/dev/null || true
    done
    for pid in "${pids[@]}"; do
        wait "$pid" 2>/dev/null || true
    done
    rm -rf "$scratch"
}

mkdir -p "$tools"
install
make_models

scratch=$(mktemp -d)
pids=()
servers=()
readonly scratch
trap stop EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

bin="$tools/venv/bin"
port=$(free_port)
start llama "$port" /health "$bin/python" "$here/serve_llama.py" "$tools/tiny.gguf" text "$port"
port=$(free_port)
start embed "$port" /health "$bin/python" "$here/serve_llama.py" "$tools/tiny.gguf" embedding "$port"
port=$(free_port)
start hf "$port" /health "$bin/transformers" serve "$tools/tiny" --host 127.0.0.1 --port "$port"
port=$(free_port)
start vllm "$port" /health "$bin/vllm" serve "$tools/tiny" --served-model-name tiny --host 127.0.0.1 --port "$port" \
    --dtype float32 --max-model-len 1024 --max-num-seqs 8 --enforce-eager
if ((${#servers[@]} == 0)); then
    echo "servers.sh: no server started" >&2
    exit 1
fi

"$bin/python" "$here/check_servers.py" "$gateway_binary" "$scratch/gateway" "$tools/tiny" "${servers[@]}"
