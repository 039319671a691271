"""Layers of single samples and three small networks of them, in NumPy.

A layer's forward turns x into y and what it saves; its backward takes parameters, what was saved and dy,
and returns dx with the gradients by tensor. It takes nothing of a parameter from the forward.
"""

import numpy as np

EPSILON = 1e-5
CLASSES = 4


class Layer:
    """Has tensors of its name, if any, and a result of its input's shape, unless it says otherwise."""

    def __init__(self, name=None):
        self.name = name

    def shapes(self, shape):
        return {}, shape


def normalise(rows):
    """Each row to mean 0 and variance 1; with what it was multiplied by."""
    inverse = 1 / np.sqrt(rows.var(1, keepdims=True) + EPSILON)
    return (rows - rows.mean(1, keepdims=True)) * inverse, inverse


def normalise_backward(normalised, inverse, dy):
    return inverse * (dy - dy.mean(1, keepdims=True)
                      - normalised * (dy * normalised).mean(1, keepdims=True))


class Linear:
    def __init__(self, name, outputs):
        self.name, self.outputs = name, outputs

    def shapes(self, shape):
        inputs = int(np.prod(shape))
        return {f"{self.name}.weight": (self.outputs, inputs), f"{self.name}.bias": (self.outputs,)}, (
            self.outputs, 1, 1)

    def forward(self, p, x):
        y = p[f"{self.name}.weight"] @ x.ravel() + p[f"{self.name}.bias"]
        return y.reshape(-1, 1, 1), x

    def backward(self, p, x, dy):
        dy = dy.ravel()
        gradients = {f"{self.name}.weight": np.outer(dy, x.ravel()), f"{self.name}.bias": dy}
        return (p[f"{self.name}.weight"].T @ dy).reshape(x.shape), gradients


class Convolution:
    """3x3 with a border of one zero."""

    def __init__(self, name, channels, stride=1, bias=False):
        self.name, self.channels, self.stride, self.bias = name, channels, stride, bias

    def shapes(self, shape):
        tensors = {f"{self.name}.weight": (self.channels, shape[0], 3, 3)}
        if self.bias:
            tensors[f"{self.name}.bias"] = (self.channels,)
        edge = lambda n: (n - 1) // self.stride + 1
        return tensors, (self.channels, edge(shape[1]), edge(shape[2]))

    def windows(self, x):
        """Slices of the padded image: what each of the nine weights meets, pixel by pixel."""
        s = self.stride
        rows, columns = (x.shape[1] - 1) // s + 1, (x.shape[2] - 1) // s + 1
        for i in range(3):
            for j in range(3):
                yield i, j, np.s_[:, i : i + s * rows : s, j : j + s * columns : s]

    def forward(self, p, x):
        padded = np.pad(x, ((0, 0), (1, 1), (1, 1)))
        w = p[f"{self.name}.weight"]
        y = sum(np.tensordot(w[:, :, i, j], padded[at], 1) for i, j, at in self.windows(x))
        if self.bias:
            y = y + p[f"{self.name}.bias"][:, None, None]
        return y, x

    def backward(self, p, x, dy):
        padded = np.pad(x, ((0, 0), (1, 1), (1, 1)))
        w = p[f"{self.name}.weight"]
        dw, dx = np.zeros_like(w), np.zeros_like(padded)
        for i, j, at in self.windows(x):
            dw[:, :, i, j] = np.tensordot(dy, padded[at], ((1, 2), (1, 2)))
            dx[at] += np.tensordot(w[:, :, i, j].T, dy, 1)
        gradients = {f"{self.name}.weight": dw}
        if self.bias:
            gradients[f"{self.name}.bias"] = dy.sum((1, 2))
        return dx[:, 1:-1, 1:-1], gradients


class GroupNorm(Layer):
    GROUPS = 2

    def shapes(self, shape):
        return {f"{self.name}.weight": shape[:1], f"{self.name}.bias": shape[:1]}, shape

    def forward(self, p, x):
        grouped, inverse = normalise(x.reshape(self.GROUPS, -1))
        normalised = grouped.reshape(x.shape)
        gamma, beta = p[f"{self.name}.weight"], p[f"{self.name}.bias"]
        return gamma[:, None, None] * normalised + beta[:, None, None], (normalised, inverse)

    def backward(self, p, saved, dy):
        normalised, inverse = saved
        gradients = {f"{self.name}.weight": (dy * normalised).sum((1, 2)),
                     f"{self.name}.bias": dy.sum((1, 2))}
        along = p[f"{self.name}.weight"][:, None, None] * dy
        grouped = (self.GROUPS, -1)
        dx = normalise_backward(normalised.reshape(grouped), inverse, along.reshape(grouped))
        return dx.reshape(dy.shape), gradients


class Relu(Layer):
    def forward(self, p, x):
        return np.maximum(x, 0), x > 0

    def backward(self, p, mask, dy):
        return dy * mask, {}


class AveragePool:
    def shapes(self, shape):
        return {}, (shape[0], 1, 1)

    def forward(self, p, x):
        return x.mean((1, 2), keepdims=True), x.shape

    def backward(self, p, shape, dy):
        return np.broadcast_to(dy / (shape[1] * shape[2]), shape), {}


# Layers on sequences of tokens: rows of (tokens, channels), first numbers of tokens.
TOKENS, WIDTH, HEADS, SYMBOLS = 5, 6, 2, 7


class Embedding(Layer):
    def shapes(self, shape):
        return {f"{self.name}.weight": (SYMBOLS, WIDTH)}, (shape[0], WIDTH)

    def forward(self, p, x):
        return p[f"{self.name}.weight"][x], x

    def backward(self, p, x, dy):
        hot = np.eye(SYMBOLS)[x]
        return None, {f"{self.name}.weight": hot.T @ dy}


class Position(Layer):
    def shapes(self, shape):
        return {f"{self.name}.weight": shape}, shape

    def forward(self, p, x):
        return x + p[f"{self.name}.weight"], None

    def backward(self, p, saved, dy):
        return dy, {f"{self.name}.weight": dy}


class LayerNorm(Layer):
    def shapes(self, shape):
        return {f"{self.name}.weight": shape[1:], f"{self.name}.bias": shape[1:]}, shape

    def forward(self, p, x):
        normalised, inverse = normalise(x)
        return p[f"{self.name}.weight"] * normalised + p[f"{self.name}.bias"], (normalised, inverse)

    def backward(self, p, saved, dy):
        normalised, inverse = saved
        dx = normalise_backward(normalised, inverse, p[f"{self.name}.weight"] * dy)
        return dx, {f"{self.name}.weight": (dy * normalised).sum(0), f"{self.name}.bias": dy.sum(0)}


class TokenLinear:
    def __init__(self, name, outputs, bias=True):
        self.name, self.outputs, self.bias = name, outputs, bias

    def shapes(self, shape):
        tensors = {f"{self.name}.weight": (self.outputs, shape[1])}
        if self.bias:
            tensors[f"{self.name}.bias"] = (self.outputs,)
        return tensors, (shape[0], self.outputs)

    def forward(self, p, x):
        y = np.einsum("ti,oi->to", x, p[f"{self.name}.weight"])
        return (y + p[f"{self.name}.bias"] if self.bias else y), x

    def backward(self, p, x, dy):
        gradients = {f"{self.name}.weight": np.einsum("to,ti->oi", dy, x)}
        if self.bias:
            gradients[f"{self.name}.bias"] = dy.sum(0)
        return np.einsum("to,oi->ti", dy, p[f"{self.name}.weight"]), gradients


class TiedLinear:
    """By the embedding's rows as they were for the sample's forward, which come as the tensor `rows`."""

    def shapes(self, shape):
        return {}, (shape[0], SYMBOLS)

    def forward(self, p, x):
        return np.einsum("ti,oi->to", x, p["rows"]), (x, p["rows"])

    def backward(self, p, saved, dy):
        x, rows = saved
        return np.einsum("to,oi->ti", dy, rows), {"rows": np.einsum("to,ti->oi", dy, x)}


class Attention:
    """The whole matrix of each head at once; what a token must not see is minus infinity."""

    def shapes(self, shape):
        return {}, (shape[0], shape[1] // 3)

    def heads(self, x):
        """(3, heads, tokens, channels)"""
        return x.reshape(len(x), 3, HEADS, -1).transpose(1, 2, 0, 3)

    def forward(self, p, x):
        q, k, v = self.heads(x)
        scores = np.einsum("hqc,hkc->hqk", q, k) / np.sqrt(q.shape[-1])
        scores = np.where(np.tri(len(x), dtype=bool), scores, -np.inf)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        y = np.einsum("hqk,hkc->qhc", weights, v)
        return y.reshape(len(x), -1), (x, weights)

    def backward(self, p, saved, dy):
        x, weights = saved
        q, k, v = self.heads(x)
        dy = dy.reshape(len(x), HEADS, -1)
        dweights = np.einsum("qhc,hkc->hqk", dy, v)
        # Through the softmax by its Jacobian, diag(w) - w w'.
        dscores = weights * dweights
        dscores -= weights * dscores.sum(-1, keepdims=True)
        dscores /= np.sqrt(q.shape[-1])
        parts = [np.einsum("hqk,hkc->qhc", dscores, k), np.einsum("hqk,hqc->khc", dscores, q),
                 np.einsum("hqk,qhc->khc", weights, dy)]
        return np.stack(parts, 1).reshape(x.shape), {}


class Gelu(Layer):
    def forward(self, p, x):
        return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))), x

    def backward(self, p, x, dy):
        t = np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))
        slope = np.sqrt(2 / np.pi) * (1 + 3 * 0.044715 * x**2)
        return dy * (0.5 * (1 + t) + 0.5 * x * (1 - t**2) * slope), {}


# A stage: its layers and the values that it reads; every stage makes the value of its own name. A stage
# without layers sums what it reads.
NETWORKS = {
    "mlp": {
        "input": (1, 3, 4),
        "stages": [
            ("classifier.0", [Linear("classifier.0", 7)], ["input"]),
            ("classifier.0.relu", [Relu()], ["classifier.0"]),
            ("classifier.1", [Linear("classifier.1", 6)], ["classifier.0.relu"]),
            ("classifier.1.relu", [Relu()], ["classifier.1"]),
            ("classifier.2", [Linear("classifier.2", CLASSES)], ["classifier.1.relu"]),
        ],
    },
    "convolutions": {
        "input": (2, 6, 5),
        "stages": [
            ("conv1", [Convolution("conv1", 4, bias=True)], ["input"]),
            ("block.conv1", [GroupNorm("block.norm1"), Relu(), Convolution("block.conv1", 4)],
             ["conv1"]),
            ("block.conv2", [GroupNorm("block.norm2"), Relu(), Convolution("block.conv2", 4)],
             ["block.conv1"]),
            ("block", [], ["block.conv2", "conv1"]),
            ("conv2", [GroupNorm("norm2"), Relu(), Convolution("conv2", 6, stride=2)], ["block"]),
            ("norm", [GroupNorm("norm"), Relu()], ["conv2"]),
            ("pool", [AveragePool()], ["norm"]),
            ("fc", [Linear("fc", CLASSES)], ["pool"]),
        ],
    },
    "gpt": {
        "input": (TOKENS,),
        "stages": [
            ("embedding", [Embedding("wte"), Position("wpe")], ["input"]),
            ("h.0.attn",
             [LayerNorm("h.0.ln_1"), TokenLinear("h.0.attn.c_attn", 3 * WIDTH), Attention(),
              TokenLinear("h.0.attn.c_proj", WIDTH)], ["embedding"]),
            ("h.0.attn.sum", [], ["h.0.attn", "embedding"]),
            ("h.0.mlp",
             [LayerNorm("h.0.ln_2"), TokenLinear("h.0.mlp.c_fc", 4 * WIDTH), Gelu(),
              TokenLinear("h.0.mlp.c_proj", WIDTH)], ["h.0.attn.sum"]),
            ("h.0.mlp.sum", [], ["h.0.mlp", "h.0.attn.sum"]),
            ("ln_f", [LayerNorm("ln_f")], ["h.0.mlp.sum"]),
            ("lm_head", [TokenLinear("lm_head", SYMBOLS, bias=False)], ["ln_f"]),
        ],
    },
}

NETWORKS["gpt-tied"] = {
    "input": (TOKENS,),
    "stages": [*NETWORKS["gpt"]["stages"][:-1], ("lm_head", [TiedLinear()], ["ln_f"])],
}


def shapes_of(network):
    """Tensors by stage, in the order of its layers; the loss has none."""
    values, stages = {"input": network["input"]}, []
    for name, layers, inputs in network["stages"]:
        shape, tensors = values[inputs[0]], {}
        for layer in layers:
            own, shape = layer.shapes(shape)
            tensors.update(own)
        values[name] = shape
        stages.append(tensors)
    return stages + [{}]


def initial_weights(network, random):
    def draw(name, shape):
        if name.endswith("bias"):
            return 0.1 * random.standard_normal(shape)
        if len(shape) == 1:
            return 1 + 0.1 * random.standard_normal(shape)
        return random.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))

    return [{name: draw(name, shape) for name, shape in tensors.items()}
            for tensors in shapes_of(network)]
