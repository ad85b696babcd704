"""The graphs of the embedded policy: ONNX without weights, which are given when a session opens.

    python -m specvet.policies.embedded.building          writes graphs/text.onnx and graphs/vision.onnx; needs onnx

Both work on flat rows (tokens or patches x width) and have ONNX Runtime's fused operators: attention over keys and
values that are kept in place (GroupQueryAttention), norms that add the residual, rotary positions. Weights are named
in `specvet.policies.embedded.weights`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from onnx import TensorProto, helper

from specvet.policies.embedded.shape import NANO, Shape

FOLDER = Path(__file__).parent / "graphs"
VISION_EPSILON = 1e-6
OURS = "com.microsoft"
FLOAT, INT32, INT64, UINT8 = TensorProto.FLOAT, TensorProto.INT32, TensorProto.INT64, TensorProto.UINT8


class Graph:
    """Nodes in the order of their making, each known by the name of its output."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.nodes: list[Any] = []
        self.weights: dict[str, Any] = {}
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []

    def input(self, name: str, type: int, *shape: int | str) -> str:
        self.inputs.append(helper.make_tensor_value_info(name, type, shape))
        return name

    def output(self, name: str, type: int, *shape: int | str) -> None:
        self.outputs.append(helper.make_tensor_value_info(name, type, shape))

    def weight(self, name: str, *shape: int) -> str:
        """A float32 tensor that lies outside: in no file, since it is given at load."""
        tensor = TensorProto(name=name, data_type=FLOAT, dims=shape, data_location=TensorProto.EXTERNAL)
        tensor.external_data.add(key="location", value="given-at-load")
        self.weights[name] = tensor
        return name

    def constant(self, name: str, values: list[int]) -> str:
        self.weights[name] = helper.make_tensor(name, INT64, [len(values)], values)
        return name

    def add(self, kind: str, name: str, *inputs: str, outputs: tuple[str, ...] = (), **attributes: Any) -> str:
        """A node; its (first) output has its name."""
        ours = kind in _OURS
        node = helper.make_node(
            kind, list(inputs), list(outputs or (name,)), name=name, domain=OURS if ours else "", **attributes
        )
        self.nodes.append(node)
        return name

    def linear(self, name: str, x: str, wide: int, out: int, *, bias: bool) -> str:
        """x times a weight (wide, out), and its bias."""
        weight = self.weight(f"{name}.weight", wide, out)
        if not bias:
            return self.add("MatMul", name, x, weight)
        return self.add("Gemm", name, x, weight, self.weight(f"{name}.bias", out))

    def norm(self, name: str, x: str, width: int, epsilon: float) -> str:
        return self.add(
            "SimplifiedLayerNormalization", name, x, self.weight(f"{name}.weight", width), axis=-1, epsilon=epsilon
        )

    def added_norm(self, name: str, x: str, residual: str, width: int, epsilon: float) -> tuple[str, str]:
        """The norm of x + residual, and the sum."""
        weight = self.weight(f"{name}.weight", width)
        given = (name, "", "", f"{name}.sum")
        self.add("SkipSimplifiedLayerNormalization", name, x, residual, weight, outputs=given, epsilon=epsilon)
        return name, f"{name}.sum"

    def gated(self, name: str, x: str, wide: int, ffn: int, *, bias: bool) -> str:
        """SwiGLU; gate and up are one product."""
        both = self.linear(f"{name}.gate_up", x, wide, 2 * ffn, bias=bias)
        self.add("Split", f"{name}.gate", both, outputs=(f"{name}.gate", f"{name}.up"), axis=-1, num_outputs=2)
        gate = self.add("QuickGelu", f"{name}.silu", f"{name}.gate", alpha=1.0)
        inner = self.add("Mul", f"{name}.inner", gate, f"{name}.up")
        return self.linear(f"{name}.down", inner, ffn, wide, bias=bias)

    def model(self) -> Any:
        graph = helper.make_graph(self.nodes, self.name, self.inputs, self.outputs, list(self.weights.values()))
        opsets = [helper.make_opsetid("", 18), helper.make_opsetid(OURS, 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=9, producer_name="specvet")


_OURS = {
    "GroupQueryAttention",
    "MultiHeadAttention",
    "RotaryEmbedding",
    "SkipSimplifiedLayerNormalization",
    "QuickGelu",
    "BiasGelu",
}


def text_graph(s: Shape) -> Any:
    """Rows that read tokens: one token each of many rows, or many tokens of one row.

    Inputs: `hidden` (rows * tokens, hidden) embeddings; `shape` (rows, tokens, -1); `seen` (rows,) index of each row's
    last token; `longest` (1,) tokens of the longest row; `cos`, `sin` (longest at least, half a head), of which the
    first rows * tokens are those of the tokens, and `order` (rows, tokens), which counts them; `keys.N`, `values.N`
    (rows, kv heads, room, head), which the outputs `new_keys.N`, `new_values.N` must share. Output: `logits`
    (rows, ids) of each row's last token.
    """
    g = Graph("text")
    width, kv = s.heads * s.head, s.kv_heads * s.head
    hidden = g.input("hidden", FLOAT, "tokens", s.hidden)
    shape, seen, longest = g.input("shape", INT64, 3), g.input("seen", INT32, "rows"), g.input("longest", INT32, 1)
    cos, sin = (g.input(name, FLOAT, "room", s.head // 2) for name in ("cos", "sin"))
    order = g.input("order", INT64, "rows", "each")
    flat = g.constant("flat", [-1, width])
    last = g.constant("last", [-1])
    g.output("logits", FLOAT, "rows", s.ids)
    residual, x = hidden, g.norm("0.input_norm", hidden, s.hidden, s.epsilon)
    for i in range(s.layers):
        memory = ("rows", s.kv_heads, "room", s.head)
        keys, values = (g.input(f"{name}.{i}", FLOAT, *memory) for name in ("keys", "values"))
        qkv = g.linear(f"{i}.qkv", x, s.hidden, width + 2 * kv, bias=True)
        qkv = g.add("Reshape", f"{i}.rows", qkv, shape)
        g.add(
            "GroupQueryAttention",
            f"{i}.attention",
            *(qkv, "", "", keys, values, seen, longest, cos, sin, order),
            outputs=(f"{i}.attention", f"new_keys.{i}", f"new_values.{i}"),
            num_heads=s.heads,
            kv_num_heads=s.kv_heads,
            do_rotary=1,
        )
        for name in ("new_keys", "new_values"):
            g.output(f"{name}.{i}", FLOAT, *memory)
        attended = f"{i}.attention"
        if i == s.layers - 1:  # from here on only the last token counts
            attended = g.add("Gather", f"{i}.last", attended, last, axis=1)
            residual = g.add("Gather", f"{i}.last_residual", g.add("Reshape", f"{i}.r", residual, shape), last, axis=1)
            residual = g.add("Reshape", f"{i}.residual", residual, flat)
        attended = g.add("Reshape", f"{i}.flat", attended, flat)
        out = g.linear(f"{i}.out", attended, width, s.hidden, bias=False)
        x, residual = g.added_norm(f"{i}.ffn_norm", out, residual, s.hidden, s.epsilon)
        out = g.gated(f"{i}.ffn", x, s.hidden, s.ffn, bias=False)
        following = "norm" if i == s.layers - 1 else f"{i + 1}.input_norm"
        x, residual = g.added_norm(following, out, residual, s.hidden, s.epsilon)
    g.add("MatMul", "logits", x, g.weight("head.weight", s.hidden, s.ids))
    return g.model()


def vision_graph(s: Shape) -> Any:
    """Pictures of one size.

    Inputs: `patches` (pictures * patches, patch values), uint8; `shape` (pictures, patches, -1); `cos`, `sin` (patches,
    half a head); `start` (1,) zero. Output: `features` (pictures * tokens, hidden).
    """
    g = Graph("vision")
    v = s.vision_hidden
    patches = g.input("patches", UINT8, "patches", s.patch_values)
    shape, start = g.input("shape", INT64, 3), g.input("start", INT64, 1)
    cos, sin = (g.input(name, FLOAT, "each", s.vision_head // 2) for name in ("cos", "sin"))
    flat, merged = g.constant("flat", [-1, v]), g.constant("merged", [-1, s.merged])
    g.output("features", FLOAT, "tokens", s.hidden)
    values = g.add("Cast", "values", patches, to=FLOAT)
    residual = g.linear("patches_in", values, s.patch_values, v, bias=True)
    x = g.norm("0.norm1", residual, v, VISION_EPSILON)
    for i in range(s.vision_layers):
        qkv = g.add("Reshape", f"{i}.rows", g.linear(f"{i}.qkv", x, v, 3 * v, bias=True), shape)
        parts = tuple(f"{i}.{name}" for name in ("q", "k", "v"))
        g.add("Split", f"{i}.q", qkv, outputs=parts, axis=-1, num_outputs=3)
        turned = [
            g.add("RotaryEmbedding", f"{part}.turned", part, start, cos, sin, num_heads=s.vision_heads)
            for part in parts[:2]
        ]
        attended = g.add("MultiHeadAttention", f"{i}.attention", *turned, parts[2], num_heads=s.vision_heads)
        attended = g.add("Reshape", f"{i}.flat", attended, flat)
        out = g.linear(f"{i}.out", attended, v, v, bias=True)
        x, residual = g.added_norm(f"{i}.norm2", out, residual, v, VISION_EPSILON)
        out = g.gated(f"{i}.ffn", x, v, s.vision_ffn, bias=True)
        following = "merger_norm" if i == s.vision_layers - 1 else f"{i + 1}.norm1"
        x, residual = g.added_norm(following, out, residual, v, VISION_EPSILON)
    x = g.add("Reshape", "side_by_side", x, merged)
    x = g.add("MatMul", "merger_in", x, g.weight("merger_in.weight", s.merged, s.merged))
    x = g.add("BiasGelu", "gelu", x, g.weight("merger_in.bias", s.merged))
    g.add(
        "Gemm", "features", x, g.weight("merger_out.weight", s.merged, s.hidden), g.weight("merger_out.bias", s.hidden)
    )
    return g.model()


def write_graphs(folder: Path = FOLDER, shape: Shape = NANO) -> list[Path]:
    """Both graphs as files."""
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for name, graph in (("text", text_graph(shape)), ("vision", vision_graph(shape))):
        files.append(folder / f"{name}.onnx")
        files[-1].write_bytes(graph.SerializeToString(deterministic=True))
    return files


if __name__ == "__main__":
    for file in write_graphs():
        print(f"{file}: {file.stat().st_size} bytes")
