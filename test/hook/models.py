"""A small decoder whose parts are probed by class path."""

import torch
from torch import nn
from torch.nn import functional

WIDTH = 32


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.out = nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, hidden):
        q, k, v = self.qkv(hidden).chunk(3, -1)
        weights = torch.softmax(q @ k.transpose(-1, -2) / WIDTH**0.5, -1)
        return self.out(weights @ v)


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(WIDTH, 4 * WIDTH)
        self.down = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, hidden, scale=None):
        return self.down(functional.silu(self.up(hidden)))


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention, self.mlp = Attention(), Mlp()

    def forward(self, hidden):
        hidden = hidden + self.attention(self.first(hidden))
        return hidden + self.mlp(hidden=self.second(hidden))


class Decoder(nn.Module):
    def __init__(self, layers=2):
        super().__init__()
        self.embedding = nn.Embedding(16, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(layers))
        self.head = nn.Linear(WIDTH, 16)

    def forward(self, tokens):
        hidden = self.embedding(tokens)
        for layer in self.layers:
            hidden = layer(hidden)
        return self.head(hidden)


PROBES = """
[[probes]]
module = "models.Attention"
phase = "attention"

[[probes]]
module = "models.M*p"
phase = "mlp"

[[probes]]
module = "models.Layer"
phase = "layer"

[[probes]]
module = "models.Decoder"
phase = "forward"
"""
LAYER = ["+layer", "+attention", "-attention", "+mlp", "-mlp", "-layer"]
FORWARD = ["+forward", *LAYER, *LAYER, "-forward"]
