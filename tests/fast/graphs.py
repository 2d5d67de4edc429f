"""What a GPU decodes with, on a CPU: every step repeats its work, which a GPU replays."""

from tfmr.fast.decoder import FastTransformer
from tfmr.fast.graph_state import GraphDecoder
from tfmr.model import Transformer


def prepare_as_on_a_gpu(model: Transformer) -> FastTransformer:
    """:func:`tfmr.fast.prepare` on a GPU."""
    prepared = FastTransformer(model, model.output.weight.dtype)
    prepared._graphs = GraphDecoder(prepared._next, model.output.weight[:, 0].detach())
    return prepared
