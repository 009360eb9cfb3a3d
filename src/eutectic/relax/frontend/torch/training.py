"""What in a model behaves differently in training: refused, because results would be random or change the model."""

from __future__ import annotations

from typing import Final

from torch import fx, nn
from torch.export import ExportedProgram
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.dropout import _DropoutNd

from eutectic.relax.frontend.torch.spans import place_of, span_of
from eutectic.support.errors import ModelStateError

SHOWN: Final = 3
_HELP: Final = "call model.eval() before compiling"
# Position of the flag `train` among the arguments, by operator; the rate of dropout is the one before.
_FLAGS: Final = {
    "aten.dropout.default": 2,
    "aten.dropout_.default": 2,
    "aten.feature_dropout.default": 2,
    "aten.feature_dropout_.default": 2,
    "aten.alpha_dropout.default": 2,
    "aten.alpha_dropout_.default": 2,
    "aten.batch_norm.default": 5,
    "aten.rrelu.default": 3,
    "aten.rrelu_.default": 3,
}


def refuse_training_mode(model: nn.Module) -> None:
    """Refuse a module with parts that behave differently in training and are in training mode.

    Raises:
        ModelStateError: names the first of them.
    """
    parts = [
        f"{path or 'the model itself'} ({type(module).__name__})"
        for path, module in model.named_modules()
        if module.training and _differs(module)
    ]
    if parts:
        more = f" and {len(parts) - SHOWN} more" if len(parts) > SHOWN else ""
        raise ModelStateError(
            f"the model is in training mode: {', '.join(parts[:SHOWN])}{more}",
            notes=["in training, dropout is random and batch norm changes its statistics with each call"],
            help=_HELP,
        )


def _differs(module: nn.Module) -> bool:
    """Whether training mode changes what a module of torch computes."""
    if isinstance(module, _DropoutNd):
        return module.p > 0
    if isinstance(module, _NormBase):
        return bool(module.track_running_stats)
    if isinstance(module, (nn.RNNBase, nn.MultiheadAttention)):
        return bool(module.dropout > 0)
    return isinstance(module, nn.RReLU)


def refuse_training_operators(program: ExportedProgram) -> None:
    """Refuse a program that was exported in training mode.

    Raises:
        ModelStateError: names the operators and where they are.
    """
    graphs = [module.graph for module in program.graph_module.modules() if isinstance(module, fx.GraphModule)]
    nodes = [node for graph in graphs for node in graph.nodes if _is_training(node)]
    if nodes:
        places = [f"{node.target} at {place_of(node)}" for node in nodes[:SHOWN]]
        span = span_of(nodes[0])
        raise ModelStateError(
            f"the model was exported in training mode: {nodes[0].target}"
            + (f" and {len(nodes) - 1} more" if len(nodes) > 1 else ""),
            at=span.excerpt() if span is not None and span.file else None,
            notes=places,
            help="call model.eval() before exporting",
        )


def _is_training(node: fx.Node) -> bool:
    name = str(node.target)
    place = _FLAGS.get(name)
    if place is None or len(node.args) <= place or node.args[place] is not True:
        return False
    if "dropout" in name:
        return bool(node.args[place - 1])
    return "batch_norm" not in name or node.args[3] is not None
