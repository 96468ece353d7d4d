#!/usr/bin/env python3
"""Writes a tiny model in the Hugging Face format, for vLLM and `transformers serve`.

The model is a real two-layer llama transformer with untrained, random weights from a fixed seed.
Each capital letter is a separate token of its vocabulary, so that typed decisions can read the
probabilities of labels.
"""

import argparse
import sys
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

CONTEXT = 1024
WORDS = """
the of and a to in is was he for it with as his on be at by had not are but from or have an they which one you were all her she
there would their we him been has when who will no more if out so up said what its about than into them can only other time new
some could these two may first then do any like my now over such our man me even most made after also did many off before must
well back through years where much your way down should because long each just state those people too little still good world
""".split()
CHAT_TEMPLATE = (
    "{%- for message in messages %}{{- '<|im_start|>' + message.role + '\n' }}"
    "{%- if message.content is string %}{{- message.content }}"
    "{%- else %}{%- for part in message.content %}{{- part.text }}{%- endfor %}{%- endif %}"
    "{{- '<|im_end|>\n' }}{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{%- endif %}"
)
SPECIAL = ["<unk>", "<s>", "</s>", "<|im_start|>", "<|im_end|>"]


def tokenizer() -> PreTrainedTokenizerFast:
    """Returns a byte-level BPE tokenizer with merges from a short text."""
    trained = Tokenizer(models.BPE(unk_token="<unk>"))
    trained.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trained.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=1024, special_tokens=SPECIAL, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    letters = [f"{letter}\n {letter} " for letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"]
    trained.train_from_iterator([" ".join(WORDS)] * 20 + letters * 20, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=trained,
        bos_token="<s>",
        eos_token="<|im_end|>",
        unk_token="<unk>",
        pad_token="</s>",
        chat_template=CHAT_TEMPLATE,
        model_max_length=CONTEXT,
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("path", type=Path, help="the folder to write")
    parser.add_argument("--seed", type=int, default=1, help="seed of the random weights (default 1)")
    arguments = parser.parse_args()

    torch.manual_seed(arguments.seed)
    spoken = tokenizer()
    config = LlamaConfig(
        vocab_size=len(spoken),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=CONTEXT,
        bos_token_id=spoken.bos_token_id,
        eos_token_id=spoken.eos_token_id,
        pad_token_id=spoken.pad_token_id,
        tie_word_embeddings=False,
    )
    LlamaForCausalLM(config).to(torch.float32).save_pretrained(arguments.path)
    spoken.save_pretrained(arguments.path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
