"""A decoder of the shape of an 8B model (random weights, bf16) for the overhead benchmarks, also tensor-parallel."""

import torch
import torch.nn.functional as F
from torch import nn

HIDDEN, INNER, HEADS, KV_HEADS, HEAD, CONTEXT = 4096, 12288, 32, 8, 128, 1024


class Projection(nn.Linear):
    """A linear layer that writes where `place(rows)` says, if given, and repeats a share of its work if told to."""

    def __init__(self, inputs, outputs, place=None):
        super().__init__(inputs, outputs, bias=False)
        self.place, self.repeated = place, 0.0

    def forward(self, x):
        if self.repeated:
            F.linear(x, self.weight[: int(self.repeated * self.out_features)])
        return torch.mm(x, self.weight.t(), out=self.place(x.shape[0])) if self.place else super().forward(x)


class Attention(nn.Module):
    def __init__(self, ranks, place):
        super().__init__()
        self.heads, self.kv_heads = HEADS // ranks, KV_HEADS // ranks
        self.qkv = Projection(HIDDEN, (self.heads + 2 * self.kv_heads) * HEAD)
        self.out = Projection(self.heads * HEAD, HIDDEN, place)

    def forward(self, x, cache):
        sizes = [self.heads * HEAD, self.kv_heads * HEAD, self.kv_heads * HEAD]
        q, k, v = self.qkv(x).split(sizes, -1)
        if cache is None:
            return self.out(self.prefill(q, k, v))
        keys, values = cache
        keys[:, :, 0] = k.view(-1, self.kv_heads, HEAD)
        values[:, :, 0] = v.view(-1, self.kv_heads, HEAD)
        q = q.view(-1, self.kv_heads, self.heads // self.kv_heads, HEAD)
        y = F.scaled_dot_product_attention(q, keys, values)
        return self.out(y.reshape(x.shape[0], -1))

    def prefill(self, q, k, v):
        """One sequence: the rows are its tokens."""
        q = q.view(1, -1, self.heads, HEAD).transpose(1, 2)
        k, v = (t.view(1, -1, self.kv_heads, HEAD).transpose(1, 2) for t in (k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return y.transpose(1, 2).reshape(-1, self.heads * HEAD)


class Mlp(nn.Module):
    def __init__(self, ranks, place):
        super().__init__()
        self.up = Projection(HIDDEN, 2 * INNER // ranks)
        self.down = Projection(INNER // ranks, HIDDEN, place)

    def forward(self, x):
        gate, up = self.up(x).chunk(2, -1)
        return self.down(F.silu(gate) * up)


class Layer(nn.Module):
    """`reduce(x)` sums over the ranks; None: one rank. `place(rows)`: where it wants its input."""

    def __init__(self, ranks, reduce, place):
        super().__init__()
        self.norm1, self.norm2 = nn.RMSNorm(HIDDEN), nn.RMSNorm(HIDDEN)
        self.attention, self.mlp = Attention(ranks, place), Mlp(ranks, place)
        self.reduce = reduce

    def forward(self, x, cache):
        y = self.attention(self.norm1(x), cache)
        x = x + (self.reduce(y) if self.reduce else y)
        y = self.mlp(self.norm2(x))
        return x + (self.reduce(y) if self.reduce else y)


class Decoder(nn.Module):
    def __init__(self, layers, ranks, reduce, place):
        super().__init__()
        self.layers = nn.ModuleList([Layer(ranks, reduce, place) for _ in range(layers)])

    def forward(self, x, cache=None):
        for index, layer in enumerate(self.layers):
            x = layer(x, cache[index] if cache else None)
        return x


def build(layers, switch, ranks=1, reduce=None, place=None):
    """The model, its borders watched by a recorders.Switch."""
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("cuda"):
        model = Decoder(layers, ranks, reduce, place)
    torch.set_default_dtype(torch.float32)
    switch.watch(model, "forward")
    for layer in model.layers:
        switch.watch(layer, "layer")
        switch.watch(layer.attention, "attention")
        switch.watch(layer.mlp, "mlp")
    return model


def cache_of(layers, batch, ranks=1):
    shape = (batch, KV_HEADS // ranks, CONTEXT, HEAD)
    return [tuple(torch.randn(shape, device="cuda", dtype=torch.bfloat16) for _ in "kv") for _ in range(layers)]


def tokens(count):
    return torch.randn(count, HIDDEN, device="cuda", dtype=torch.bfloat16) * 0.1


def decoding(model, layers, batch, ranks=1):
    """(work, output): a decode step of `batch` sequences, and where it leaves what comes of it."""
    cache, x = cache_of(layers, batch, ranks), tokens(batch)
    output = torch.empty_like(x)

    def work():
        output.copy_(model(x, cache))

    return work, output
