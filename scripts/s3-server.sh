#!/usr/bin/env bash
# Installs the server of S3's protocol that tests start themselves: moto's, as scripts/s3-server.txt pins it, in
# .tools/s3-server. Does nothing when it is there already. `pip-compile --generate-hashes` of moto[s3], flask and flask-cors
# writes the file.
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
