#!/usr/bin/env bash
# A compiler for RUSTC_WORKSPACE_WRAPPER: compiles a crate with clippy's lints, then generates its
# documentation. Warnings are errors.
#
# `make test` compiles the workspace once with it. `cargo clippy` and `cargo doc` compile the
# workspace and its dependencies without code first, which takes longer than the lints themselves.
#
# Usage: checked-rustc.sh RUSTC ARGUMENT…
set -euo pipefail

rustc=$1
shift
crate='' output='' is_test=''
documented=()
arguments=("$@")
for ((i = 0; i < ${#arguments[@]}; i++)); do
    argument=${arguments[i]}
    next=${arguments[i + 1]:-}
    case $argument in
        --crate-name) crate=$next ;;
        --test) is_test=1 ;;
    esac
    # rustdoc has no such arguments.
    case $argument in
        --emit=*) continue ;;
        --out-dir) output=$next; i=$((i + 1)); continue ;;
        -C)
            case $next in
                incremental=* | extra-filename=* | linker=*) i=$((i + 1)); continue ;;
            esac ;;
    esac
    documented+=("$argument")
done

# Cargo also asks the compiler for its version and its settings.
if [ -z "$output" ]; then
    exec "$rustc" "$@"
fi
clippy-driver "$rustc" "$@" -D warnings
if [ -n "$is_test" ] || [ "$crate" = build_script_build ]; then
    exit
fi
# OUTPUT is target/PROFILE/deps.
exec rustdoc "${documented[@]}" --document-private-items --out-dir "$(dirname "$(dirname "$output")")/doc" \
    -D warnings -A rustdoc::private_intra_doc_links
