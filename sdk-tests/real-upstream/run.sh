#!/usr/bin/env bash
# Builds a real llama.cpp server and a tiny model, and starts the server. Optionally checks the
# server, or a gateway in front of it.
set -euo pipefail

usage() {
    cat <<'TEXT'
usage: sdk-tests/real-upstream/run.sh [--check | --gateway-binary PATH]

Without options: build missing parts, start the server on a free loopback port, print its base URL, and serve until
interrupted.

  --check                 call the server directly, print the checked facts, and stop
  --gateway-binary PATH   run `PATH serve` in front of the server, call the gateway with curl and the OpenAI SDK,
                          compare the server's own token counts with the usage and the ledger, and stop
  -h, --help              this text

All files are under .tools/llama; the first run compiles for about ten minutes. Requires python3 with venv, a C++
compiler, curl, and a package index (for the first run only).
Exit codes: 0 success, 1 failure, 2 invalid arguments, 3 failed checks.
TEXT
}

# The source package of the Python binding contains all of llama.cpp, including its server.
readonly PACKAGE=llama_cpp_python-0.3.36
readonly PACKAGE_SHA256=832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e
readonly LLAMA_COMMIT=0c1e57098

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
readonly here
readonly tools="$here/../../.tools/llama"
readonly llama_source="$tools/$PACKAGE/vendor/llama.cpp"
readonly server="$tools/build/bin/llama-server"
readonly model="$tools/tiny.gguf"

mode=serve
gateway_binary=''
while (($#)); do
    case "$1" in
    --check) mode=check ;;
    --gateway-binary)
        mode=gateway
        gateway_binary=${2:-}
        shift
        if [[ ! -x "$gateway_binary" ]]; then
            echo "run.sh: --gateway-binary needs the path of an executable file" >&2
            exit 2
        fi
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

install_tools() {
    if ! cmp -s "$here/requirements.txt" "$tools/requirements.installed"; then
        python3 -m venv "$tools/venv"
        "$tools/venv/bin/pip" install --quiet --disable-pip-version-check -r "$here/requirements.txt"
        cp "$here/requirements.txt" "$tools/requirements.installed"
    fi
}

fetch_source() {
    if [[ ! -d "$llama_source" ]]; then
        local archive="$tools/$PACKAGE.tar.gz" unpacked="$tools/unpacking"
        pip download --quiet --disable-pip-version-check --no-deps --no-build-isolation \
            --no-binary llama-cpp-python --dest "$tools" "llama-cpp-python==${PACKAGE##*-}"
        echo "$PACKAGE_SHA256  $archive" | sha256sum --check --quiet
        rm -rf "$unpacked"
        mkdir "$unpacked"
        tar -xzf "$archive" -C "$unpacked"
        mv "$unpacked/$PACKAGE" "$tools/"
        rm -r "$unpacked" "$archive"
    fi
}

# Builds only the server, as one static program, without optimizations that a tiny model does not
# need. Omits its web UI, which the build would download.
build_server() {
    if [[ ! -x "$server" ]]; then
        local flags="-O1 -DNDEBUG"
        nice -n 19 cmake -G Ninja -S "$llama_source" -B "$tools/build" -Wno-dev \
            -DCMAKE_BUILD_TYPE=Release -DCMAKE_C_FLAGS_RELEASE="$flags" -DCMAKE_CXX_FLAGS_RELEASE="$flags" \
            -DBUILD_SHARED_LIBS=OFF -DLLAMA_BUILD_NUMBER=0 -DLLAMA_BUILD_COMMIT="$LLAMA_COMMIT" \
            -DGGML_NATIVE=OFF -DGGML_OPENMP=OFF -DGGML_LLAMAFILE=OFF -DGGML_CPU_REPACK=OFF -DGGML_CCACHE=OFF \
            -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_APP=OFF \
            -DLLAMA_BUILD_UI=OFF -DLLAMA_USE_PREBUILT_UI=OFF -DLLAMA_OPENSSL=OFF
        CMAKE_BUILD_PARALLEL_LEVEL=${CMAKE_BUILD_PARALLEL_LEVEL:-1} \
            nice -n 19 cmake --build "$tools/build" --target llama-server
    fi
}

make_model() {
    python "$here/make_tiny_model.py" "$model.new"
    mv "$model.new" "$model"
}

# Starts the server on a free port and waits until it answers. Sets server_pid and base_url.
start_server() {
    local log="$scratch/llama-server.log" address='' deadline=$((SECONDS + 120))
    "$server" --model "$model" --alias tiny --host 127.0.0.1 --port 0 \
        --ctx-size 16384 --parallel 2 --threads 1 --threads-http 4 --metrics --no-warmup >"$log" 2>&1 &
    server_pid=$!
    until [[ -n "$address" ]] && curl --silent --fail --output /dev/null "$address/health"; do
        if ! kill -0 "$server_pid" 2>/dev/null || ((SECONDS > deadline)); then
            echo "run.sh: the server did not start; its log ends:" >&2
            tail -n 20 "$log" >&2
            exit 1
        fi
        sleep 0.1
        address=$(grep --only-matching --max-count=1 'http://127\.0\.0\.1:[0-9]*' "$log" || true)
    done
    base_url="$address/v1"
}

stop_server() {
    if [[ -n "${server_pid:-}" ]]; then
        kill "$server_pid" 2>/dev/null || true
        wait "$server_pid" 2>/dev/null || true
    fi
    rm -rf "$scratch"
}

mkdir -p "$tools"
install_tools
export PATH="$tools/venv/bin:$PATH"
fetch_source
build_server
make_model

scratch=$(mktemp -d)
readonly scratch
trap stop_server EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
start_server
echo "$base_url"

case "$mode" in
serve) wait "$server_pid" ;;
check) python "$here/check_server.py" "$base_url" ;;
gateway) python "$here/check_gateway.py" "$base_url" "$gateway_binary" "$scratch" ;;
esac
