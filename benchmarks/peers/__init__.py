"""The systems that tfmr is compared with, each behind the same few methods."""

from benchmarks.peers.peer import Peer, Sites
from tfmr.errors import require
from tfmr.model import TransformerConfig

__all__ = ["PEERS", "Peer", "Sites", "build"]

PEERS = ("torch", "marian", "x-transformers")
"""By the names of the command line."""


def build(name: str, config: TransformerConfig, dropout: float, sites: Sites) -> Peer:
    """The peer ``name`` in the sizes of ``config``; its library is imported only here.

    Raises:
        TfmrError: if there is no such peer, or it has other parameters than it should.
    """
    require(name in PEERS, f"expected a peer among {', '.join(PEERS)}, got {name!r}")
    if name == "torch":
        from benchmarks.peers.torch_nn import TorchNN

        peer: Peer = TorchNN(config, dropout, sites)
    elif name == "marian":
        from benchmarks.peers.marian import Marian

        peer = Marian(config, dropout, sites)
    else:
        from benchmarks.peers.xt import XTransformers

        peer = XTransformers(config, dropout, sites)
    peer.check_size()
    return peer
