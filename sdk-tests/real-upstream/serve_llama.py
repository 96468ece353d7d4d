#!/usr/bin/env python3
"""Serves a GGUF model with llama.cpp's HTTP server (the wheel `xllamacpp`) on a loopback port until
it is stopped.

Arguments: the model file, `text` or `embedding`, and the port.
"""

import signal
import sys

import xllamacpp


def main() -> int:
    model, kind, port = sys.argv[1:4]
    params = xllamacpp.CommonParams()
    params.model.path = model
    params.model_alias = {"tiny"}
    params.hostnames = ["127.0.0.1"]
    params.port = int(port)
    params.n_ctx = 16384
    params.n_parallel = 2
    params.n_threads_http = 4
    params.cpuparams.n_threads = 1
    params.endpoint_metrics = True
    params.use_jinja = True
    params.warmup = False
    params.embedding = kind == "embedding"
    if params.embedding:
        params.pooling_type = xllamacpp.llama_pooling_type.LLAMA_POOLING_TYPE_MEAN
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    signal.pause()
    return 0


if __name__ == "__main__":
    sys.exit(main())
