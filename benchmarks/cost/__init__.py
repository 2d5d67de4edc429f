"""How cost scales: attention and decoding with the length, training with the size of the corpus.

``python -m benchmarks.cost`` measures all three on one thread, in interleaved rounds, and writes a
record of each into this folder (format: :mod:`benchmarks.scaling`).
"""
