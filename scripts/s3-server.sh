#!/usr/bin/env bash
# Installs moto, the S3-compatible server that tests start, in .tools/s3-server. Does nothing if it
# is already installed. scripts/s3-server.txt pins the versions; `pip-compile --generate-hashes` of
# moto[s3], flask and flask-cors generates that file.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
requirements=$root/scripts/s3-server.txt
folder=$root/.tools/s3-server

if cmp -s "$requirements" "$folder/installed.txt"; then
  exit
fi
python=$(command -v python3.11 || command -v python3) || { echo 's3-server.sh: python3 is missing' >&2; exit 1; }
echo "s3-server: installing moto for $("$python" --version)" >&2
rm -rf "$folder"
"$python" -m venv "$folder"
"$folder/bin/pip" install --quiet --disable-pip-version-check --no-deps --require-hashes -r "$requirements"
cp "$requirements" "$folder/installed.txt"
