#!/usr/bin/env python3
"""Writes a tiny GGUF model for llama.cpp.

The model is a real two-layer llama transformer with untrained, random weights from a fixed seed, so
the script always writes the same file. Its answers are words of a short list, in valid UTF-8, and
sometimes end before the cap. Tests of a gateway need only this: real tokens, counted by a server
that this project did not write.

One element is not random: the first element of every embedding is the same constant, and no
layer writes to it. It reaches the output unchanged, so its row in the output matrix acts as a
bias for each token. The bias makes control tokens, lone bytes and fragments of words rare.
Without it, the text would be mostly invalid UTF-8.
"""

import argparse
import sys
from dataclasses import dataclass

import gguf
import numpy as np

WORDS = """
the of and a to in is was he for it with as his on be at by had not are but from or have an they which one you were all
her she there would their we him been has when who will no more if out so up said what its about than into them can
only other time new some could these two may first then do any like my now over such our man me even most made after
also did many off before must well back through years where much your way down should because long each just state
those people too little still good world own see work men here get between both life being under never day same another
know while last might us great old year come since against go came right used take three water small river stone light
house open paper green quiet morning winter garden window story letter music number answer question
""".split()

# ChatML with tools. llama.cpp derives the format of tool calls from it, and recognizes "<|im_end|>"
# by its name as an end of generation.
CHAT_TEMPLATE = r"""
{%- if tools %}
    {{- '<|im_start|>system\nTools:\n' }}
    {%- for tool in tools %}{{- tool | tojson + '\n' }}{%- endfor %}
    {{- '<|im_end|>\n' }}
{%- endif %}
{%- for message in messages %}
    {{- '<|im_start|>' + message.role + '\n' }}
    {%- if message.content %}{{- message.content }}{%- endif %}
    {%- for call in message.tool_calls or [] %}
        {{- '<tool_call>{"name": "' + call.function.name + '", "arguments": ' }}
        {{- call.function.arguments | tojson }}
        {{- '}</tool_call>' }}
    {%- endfor %}
    {{- '<|im_end|>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{%- endif %}
""".strip()

SPACE = "\u2581"  # SentencePiece writes a space as this character.
CONTROL = ["<unk>", "<s>", "</s>", "<|im_start|>", "<|im_end|>"]
UNK, BOS, EOS, _, END_OF_TURN = range(len(CONTROL))

# The token that opens a tool call follows the control tokens, so its id is 5. To force one tool
# call, a caller raises this token with `logit_bias`, and the end of the turn higher. The server's
# grammar then allows only one call and the end.
TOOL_CALL = "<tool_call>"

# Bias of the output, in standard deviations of the logits.
BIAS_WORD, BIAS_END, BIAS_RARE, BIAS_NEVER = 4.0, 4.0, -4.0, -12.0


@dataclass(frozen=True)
class Shape:
    """Sizes of the network. With the defaults, the file has 0.7 MB."""

    layers: int = 2
    width: int = 64
    heads: int = 4
    heads_kv: int = 2
    feed_forward: int = 128
    context: int = 8192


@dataclass(frozen=True)
class Token:
    """One entry of the vocabulary: its text, merge score, kind, and output bias."""

    text: str
    score: float
    kind: gguf.TokenType
    bias: float


def vocabulary() -> list[Token]:
    """Returns control tokens, the opening of a tool call, all bytes (as fallback), printable
    characters and words.

    The tokenizer merges two neighbours if the result is in the vocabulary, best score first. It
    reaches a word only if the vocabulary also has all prefixes of the word.
    """
    tokens = [Token(text, 0.0, gguf.TokenType.CONTROL, BIAS_NEVER) for text in CONTROL]
    tokens[UNK] = Token(CONTROL[UNK], 0.0, gguf.TokenType.UNKNOWN, BIAS_NEVER)
    tokens[END_OF_TURN] = Token(CONTROL[END_OF_TURN], 0.0, gguf.TokenType.CONTROL, BIAS_END)
    tokens.append(Token(TOOL_CALL, 0.0, gguf.TokenType.USER_DEFINED, BIAS_NEVER))
    tokens += [Token(f"<0x{byte:02X}>", 0.0, gguf.TokenType.BYTE, BIAS_NEVER) for byte in range(256)]

    whole = {SPACE + word for word in WORDS}
    beginnings = {word[:end] for word in whole for end in range(2, len(word) + 1)}
    pieces = [SPACE] + [chr(code) for code in range(0x21, 0x7F)] + sorted(beginnings)
    for piece in pieces:
        bias = BIAS_WORD if piece in whole else BIAS_RARE
        tokens.append(Token(piece, float(len(piece)), gguf.TokenType.NORMAL, bias))
    return tokens


def add_metadata(writer: gguf.GGUFWriter, shape: Shape, tokens: list[Token]) -> None:
    """Writes the keys that llama.cpp reads before the tensors: sizes, tokenizer, chat template."""
    writer.add_name("tiny random llama")
    writer.add_license("apache-2.0")
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    writer.add_vocab_size(len(tokens))
    writer.add_context_length(shape.context)
    writer.add_embedding_length(shape.width)
    writer.add_block_count(shape.layers)
    writer.add_feed_forward_length(shape.feed_forward)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.heads_kv)
    writer.add_rope_dimension_count(shape.width // shape.heads)
    writer.add_rope_freq_base(10000.0)
    writer.add_layer_norm_rms_eps(1e-5)

    writer.add_tokenizer_model("llama")
    writer.add_token_list([token.text for token in tokens])
    writer.add_token_scores([token.score for token in tokens])
    writer.add_token_types([token.kind for token in tokens])
    writer.add_bos_token_id(BOS)
    writer.add_eos_token_id(EOS)
    writer.add_unk_token_id(UNK)
    writer.add_add_bos_token(True)
    writer.add_add_eos_token(False)
    # A grammar starts with the exact text of the template; an added space would never match.
    writer.add_add_space_prefix(False)
    writer.add_chat_template(CHAT_TEMPLATE)


def add_weights(writer: gguf.GGUFWriter, shape: Shape, tokens: list[Token], seed: int) -> None:
    """Writes the tensors. Every matrix is scaled by its input width, so that values neither
    vanish nor explode."""
    random = np.random.default_rng(seed)
    width, key_width = shape.width, shape.width // shape.heads * shape.heads_kv

    def matrix(rows: int, columns: int) -> np.ndarray:
        return random.standard_normal((rows, columns), dtype=np.float32) / np.float32(np.sqrt(columns))

    def matrix_into_stream(columns: int) -> np.ndarray:
        weights = matrix(width, columns)
        weights[0] = 0.0  # Do not change the constant element.
        return weights

    embedding = random.standard_normal((len(tokens), width), dtype=np.float32)
    embedding[:, 0] = 1.0
    writer.add_tensor("token_embd.weight", embedding)

    for layer in range(shape.layers):
        prefix = f"blk.{layer}"
        writer.add_tensor(f"{prefix}.attn_norm.weight", np.ones(width, dtype=np.float32))
        writer.add_tensor(f"{prefix}.attn_q.weight", matrix(width, width))
        writer.add_tensor(f"{prefix}.attn_k.weight", matrix(key_width, width))
        writer.add_tensor(f"{prefix}.attn_v.weight", matrix(key_width, width))
        writer.add_tensor(f"{prefix}.attn_output.weight", matrix_into_stream(width))
        writer.add_tensor(f"{prefix}.ffn_norm.weight", np.ones(width, dtype=np.float32))
        writer.add_tensor(f"{prefix}.ffn_gate.weight", matrix(shape.feed_forward, width))
        writer.add_tensor(f"{prefix}.ffn_up.weight", matrix(shape.feed_forward, width))
        writer.add_tensor(f"{prefix}.ffn_down.weight", matrix_into_stream(shape.feed_forward))

    output = matrix(len(tokens), width)
    output[:, 0] = [token.bias for token in tokens]
    writer.add_tensor("output_norm.weight", np.ones(width, dtype=np.float32))
    writer.add_tensor("output.weight", output)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("path", help="the GGUF file to write")
    parser.add_argument("--seed", type=int, default=1, help="seed of the random weights (default 1)")
    arguments = parser.parse_args()

    shape, tokens = Shape(), vocabulary()
    writer = gguf.GGUFWriter(arguments.path, "llama")
    add_metadata(writer, shape, tokens)
    add_weights(writer, shape, tokens, arguments.seed)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
