"""Models of ONNX and weights as safetensors, read by what is written here: the format's own messages,
and its operators by their definitions in NumPy. Scores have to give the trainer's loss."""

import json
import struct

import batchless
import numpy
import pytest
from batchless import toml

SMALL = {
    "name": "small",
    "input": [2, 9, 9],
    "classes": 5,
    "stage": [
        {"name": "c1", "layers": [{"kind": "convolution", "channels": 6, "kernel": 3, "bias": True}]},
        {"name": "lrn", "layers": [{"kind": "local_response_norm", "size": 3, "alpha": 0.3}]},
        {"name": "r1", "layers": ["relu"]},
        {"name": "pool", "layers": [{"kind": "max_pool", "kernel": 3, "stride": 2, "padding": 1}]},
        {
            "name": "c2",
            "outputs": ["c2", "h"],
            "layers": [
                {"kind": "group_norm", "groups": 2}, "relu",
                {"kind": "convolution", "channels": 8, "kernel": 3, "stride": 2, "padding": 1},
            ],
        },
        {"name": "sum", "inputs": ["c2", "h"], "layers": [{"kind": "sum", "stride": 2}]},
        {"name": "fc1", "layers": [{"kind": "linear", "features": 7}]},
        {"name": "r2", "layers": ["relu"]},
        {"name": "drop", "layers": [{"kind": "dropout", "probability": 0.3}]},
        {"name": "fc2", "layers": [{"kind": "linear", "features": 5}]},
        {"name": "loss", "layers": ["loss"]},
    ],
}  # fmt: skip

POOLED = {
    **SMALL,
    "stage": [
        *SMALL["stage"][:4],
        {"name": "scores", "layers": [{"kind": "convolution", "channels": 5, "kernel": 1}]},
        {"name": "mean", "layers": ["average_pool"]},
        {"name": "loss", "layers": ["loss"]},
    ],
}


def token_linear(name, features, **more):
    return {"kind": "token_linear", "name": name, "features": features, **more}


# Behind the pool there is one pixel, with and without height and width.
ONE_PIXEL = {
    "name": "pixel",
    "input": [2, 6, 6],
    "classes": 5,
    "stage": [
        {"name": "conv", "layers": [{"kind": "convolution", "channels": 8, "kernel": 3}]},
        {"name": "relu", "layers": ["relu"]},
        {"name": "fc", "layers": [{"kind": "linear", "features": 8}]},
        {"name": "mean", "inputs": ["conv"], "layers": ["average_pool"]},
        {"name": "sum", "inputs": ["fc", "mean"], "layers": ["sum"]},
        {"name": "head", "layers": ["layer_norm", token_linear("head", 5)]},
        {"name": "loss", "layers": ["loss"]},
    ],
}
TOKENS_OF_IMAGE = {
    **ONE_PIXEL,
    "stage": [ONE_PIXEL["stage"][0], *(ONE_PIXEL["stage"][k] for k in (3, 5, 6))],
}


GPT = {
    "name": "tiny-gpt",
    "input": [1, 12, 1],
    "classes": 11,
    "stage": [
        {
            "name": "embedding",
            "layers": [
                {"kind": "embedding", "name": "wte", "features": 16}, {"kind": "position", "name": "wpe"}
            ],
        },
        {
            "name": "attn",
            "layers": [
                {"kind": "layer_norm", "name": "ln_1"}, token_linear("c_attn", 48, bias=True),
                {"kind": "attention", "heads": 4}, token_linear("c_proj", 16, bias=True),
            ],
        },
        {"name": "attn.sum", "inputs": ["attn", "embedding"], "layers": ["sum"]},
        {
            "name": "mlp",
            "layers": [
                {"kind": "layer_norm", "name": "ln_2"}, token_linear("c_fc", 64, bias=True), "gelu",
                token_linear("mlp.c_proj", 16, bias=True),
            ],
        },
        {"name": "mlp.sum", "inputs": ["mlp", "attn.sum"], "layers": ["sum"]},
        {
            "name": "mlp2",
            "layers": [
                {"kind": "rms_norm", "name": "ln_3"}, token_linear("c_fc2", 32), "squared_relu",
                token_linear("mlp2.c_proj", 16, bias=True),
            ],
        },
        {"name": "mlp2.sum", "inputs": ["mlp2", "mlp.sum"], "layers": ["sum"]},
        {"name": "ln_f", "layers": ["layer_norm"]},
        {"name": "lm_head", "layers": [token_linear("lm_head", 11)]},
        {"name": "loss", "layers": ["loss"]},
    ],
}  # fmt: skip


def fields(message):
    """(number, value) of each field: an integer, a float or bytes."""
    place = 0

    def varint():
        nonlocal place
        value = shift = 0
        while True:
            byte = message[place]
            place += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while place < len(message):
        tag = varint()
        if tag & 7 == 0:
            yield tag >> 3, varint()
        elif tag & 7 == 5:
            place += 4
            yield tag >> 3, struct.unpack("<f", message[place - 4 : place])[0]
        else:
            assert tag & 7 == 2
            size = varint()
            place += size
            yield tag >> 3, message[place - size : place]


def every(message, number):
    return [value for field, value in fields(message) if field == number]


def tensor(message):
    kind = {1: "<f4", 7: "<i8"}[every(message, 2)[0]]
    values = numpy.frombuffer(every(message, 9)[0], dtype=kind)
    return every(message, 8)[0].decode(), values.reshape(every(message, 1))


def attributes(node):
    found = {}
    for each in every(node, 5):
        number = {1: 2, 2: 3, 3: 4, 7: 8}[every(each, 20)[0]]
        values = [x - 2**64 if isinstance(x, int) and x >= 2**63 else x for x in every(each, number)]
        found[every(each, 1)[0].decode()] = values if number == 8 else values[0]
    return found


def windows(x, a, fill):
    k, s = a["kernel_shape"][0], a["strides"][0]
    p = a.get("pads", [0])[0]
    x = numpy.pad(x, ((0, 0), (0, 0), (p, p), (p, p)), constant_values=fill)
    return numpy.lib.stride_tricks.sliding_window_view(x, (k, k), (2, 3))[:, :, ::s, ::s]


def normalized(x, axes, epsilon):
    return (x - x.mean(axes, keepdims=True)) / numpy.sqrt(x.var(axes, keepdims=True) + epsilon)


def conv(a, x, w, b=None):
    y = numpy.tensordot(windows(x, a, 0), w, ((1, 4, 5), (1, 2, 3))).transpose(0, 3, 1, 2)
    return y if b is None else y + b[:, None, None]


def lrn(a, x):
    far = (a["size"] - 1) // 2
    padded = numpy.pad(x**2, ((0, 0), (far, a["size"] - 1 - far), (0, 0), (0, 0)))
    squares = sum(padded[:, k : k + x.shape[1]] for k in range(a["size"]))
    return x / (a["bias"] + a["alpha"] / a["size"] * squares) ** a["beta"]


def group_normalization(a, x, w, b):
    parts = x.reshape(len(x), a["num_groups"], -1)
    y = normalized(parts, 2, a["epsilon"]).reshape(x.shape)
    return y * w[:, None, None] + b[:, None, None]


def pad(a, x, pads):
    return numpy.pad(x, [(pads[k], pads[k + x.ndim]) for k in range(x.ndim)])


def attention(a, q, k, v):
    n, t, width = q.shape
    q, k, v = (each.reshape(n, t, a["q_num_heads"], -1).swapaxes(1, 2) for each in (q, k, v))
    scores = q @ k.swapaxes(2, 3) / numpy.sqrt(q.shape[3])
    scores = numpy.where(numpy.tri(t, dtype=bool), scores, -numpy.inf)
    weights = numpy.exp(scores - scores.max(-1, keepdims=True))
    return (weights / weights.sum(-1, keepdims=True) @ v).swapaxes(1, 2).reshape(n, t, width)


def gelu(a, x):
    assert a == {"approximate": b"tanh"}
    return x / 2 * (1 + numpy.tanh(numpy.sqrt(2 / numpy.pi) * (x + 0.044715 * x**3)))


OPERATORS = {
    "Conv": conv,
    "LRN": lrn,
    "Relu": lambda a, x: numpy.maximum(x, 0),
    "MaxPool": lambda a, x: windows(x, a, -numpy.inf).max((4, 5)),
    "Dropout": lambda a, x, ratio: x,
    "GlobalAveragePool": lambda a, x: x.mean((2, 3), keepdims=True),
    "GroupNormalization": group_normalization,
    "Flatten": lambda a, x: x.reshape(len(x), -1),
    "Gemm": lambda a, x, w, b: x @ w.T + b,
    "Add": lambda a, x, y: x + y,
    "Pad": pad,
    "Gather": lambda a, table, x: table[x],
    "LayerNormalization": lambda a, x, w, b: normalized(x, a["axis"], a["epsilon"]) * w + b,
    "RMSNormalization": lambda a, x, w: x * w / numpy.sqrt((x**2).mean(-1, keepdims=True) + a["epsilon"]),
    "Mul": lambda a, x, y: x * y,
    "Transpose": lambda a, x: x.transpose(a["perm"]),
    "MatMul": lambda a, x, y: x @ y,
    "Split": lambda a, x: numpy.split(x, a["num_outputs"], a["axis"]),
    "Attention": attention,
    "Gelu": gelu,
}


def evaluate(model, x):
    graph = every(model, 7)[0]
    values = {name: array.astype(float) if array.dtype.kind == "f" else array
              for name, array in map(tensor, every(graph, 5))}  # fmt: skip
    values[every(every(graph, 11)[0], 1)[0].decode()] = x
    for node in every(graph, 1):
        inputs = [values[name.decode()] for name in every(node, 1)]
        outputs = [name.decode() for name in every(node, 2)]
        made = OPERATORS[every(node, 4)[0].decode()](attributes(node), *inputs)
        values |= zip(outputs, made if len(outputs) > 1 else [made])
    return values[every(every(graph, 12)[0], 1)[0].decode()]


def cross_entropy(scores, labels):
    scores = scores.reshape(-1, scores.shape[-1])
    shifted = scores - scores.max(-1, keepdims=True)
    logs = shifted - numpy.log(numpy.exp(shifted).sum(-1, keepdims=True))
    return -logs[numpy.arange(len(logs)), numpy.ravel(labels)].mean()


def made(name, program, tmp_path):
    """A trainer with weights other than its first ones, and its network as a model."""
    own = {
        "small": SMALL, "pooled": POOLED, "gpt": GPT, "one-pixel": ONE_PIXEL, "tokens-of-image": TOKENS_OF_IMAGE
    }.get(name)  # fmt: skip
    path, norm = name, ["--norm", "group"] if name.endswith("v1") else []
    if own:
        path = tmp_path / "net.toml"
        path.write_text(toml.to_document(own))
    settings = {"network": own or {"name": name, **({"norm": "group"} if norm else {})}}
    if name == "gpt":
        tokens = numpy.random.default_rng(4).integers(0, 11, 130)
        numpy.save(tmp_path / "tokens.npy", tokens)
        settings["data"] = {"name": "tokens", "file": str(tmp_path / "tokens.npy")}
    trainer = batchless.Trainer(**settings, batch=1, lr=0.1, momentum=0.0)
    random = numpy.random.default_rng(5)
    trainer.weights = {
        name: w + numpy.float32(0.1 * random.standard_normal(w.shape))
        for name, w in trainer.weights.items()
    }
    numpy.savez(tmp_path / "w.npz", **trainer.weights)
    program("network", "--network", path, *norm, "--weights", "w.npz", "--out", "net.onnx")
    return trainer, (tmp_path / "net.onnx").read_bytes()


@pytest.mark.parametrize(
    "name", ["small", "pooled", "one-pixel", "tokens-of-image", "resnet20", "resnet20-v1"]
)
def test_scores_by_the_operators_definitions_give_the_trainers_loss(name, program, tmp_path):
    trainer, model = made(name, program, tmp_path)
    x = numpy.random.default_rng(2).standard_normal((2, *trainer.input_shape), dtype=numpy.float32)
    loss = trainer.evaluate(x, [3, 1])["loss"]
    assert loss == pytest.approx(cross_entropy(evaluate(model, x.astype(float)), [3, 1]), rel=1e-5)


def test_scores_of_a_sequence_too(program, tmp_path):
    trainer, model = made("gpt", program, tmp_path)
    tokens = numpy.load(tmp_path / "tokens.npy")[-13:]  # the last tenth is for validation
    scores = evaluate(model, tokens[None, :-1])
    assert trainer.evaluate()["loss"] == pytest.approx(cross_entropy(scores, tokens[1:]), rel=1e-5)


@pytest.mark.parametrize("name", ["small", "pooled", "gpt"])
def test_the_model_reads_back_as_the_network(name, program, tmp_path):
    made(name, program, tmp_path)
    text = program("network", "--network", "net.toml")["text"]
    assert program("network", "--network", "net.onnx")["text"] == text
    # Wherever a network file is taken.
    costs = program("costs", "--network", "net.onnx")
    assert costs["stages"] == program("costs", "--network", "net.toml")["stages"]


def test_layers_on_images_behind_linear_ones_have_no_model(program, tmp_path):
    stages = ONE_PIXEL["stage"]
    (tmp_path / "net.toml").write_text(toml.to_document({
        **ONE_PIXEL,
        "stage": [*stages[:3], {"name": "conv2", "layers": [{"kind": "convolution", "channels": 5, "kernel": 1}]},
                  stages[-1]],
    }))  # fmt: skip
    said = program("network", "--network", "net.toml", "--out", "net.onnx", fails=True)
    assert "conv2.layers: got convolution behind linear, accepted: linear layers" in said


def test_weights_that_are_no_numbers_have_no_model(program, tmp_path):
    trainer, _ = made("small", program, tmp_path)
    for value in (numpy.nan, 1e300):
        weights = {name: array.astype(float) for name, array in trainer.weights.items()}
        weights[min(weights)].flat[0] = value
        numpy.savez(tmp_path / "w.npz", **weights)
        words = ("--network", "net.toml", "--weights", "w.npz", "--out", "other.onnx")
        assert program("network", *words, fails=True).endswith("accepted: finite numbers of float")
        assert not (tmp_path / "other.onnx").exists()


def test_safetensors_hold_the_trainers_weights(program, tmp_path):
    (tmp_path / "run.toml").write_text('[network]\nname = "lenet5"\n[optimizer]\nlr = 0.1\nbatch = 1\n')
    program("train", "run.toml", "--init-only", "--export-weights", "w.safetensors")
    content = (tmp_path / "w.safetensors").read_bytes()
    size = struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8 : 8 + size])
    weights = batchless.Trainer(network="lenet5", lr=0.1, batch=1).weights
    assert header.pop("__metadata__") == {"format": "pt"}
    assert list(header) == list(weights)
    for name, about in header.items():
        begin, end = (8 + size + place for place in about["data_offsets"])
        values = numpy.frombuffer(content[begin:end], dtype="<f4").reshape(about["shape"])
        numpy.testing.assert_array_equal(values, weights[name])


@pytest.mark.parametrize("kind", ["safetensors", "npz"])
def test_weights_that_are_written_where_they_were_read_stay_what_they_were(kind, program, tmp_path):
    path = tmp_path / f"w.{kind}"
    (tmp_path / "run.toml").write_text(
        '[network]\nname = "lenet5"\n[optimizer]\nlr = 0.1\nbatch = 1\n[run]\nseed = 3\n'
    )
    start = ("train", "run.toml", "--init-only", "--export-weights", path)
    program(*start)
    content = path.read_bytes()
    program(*start, "--set", "run.seed=4", "--init", path)
    assert path.read_bytes() == content
    program(*start, "--set", "run.seed=4")
    assert path.read_bytes() != content
