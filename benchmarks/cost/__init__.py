"""How cost grows: of attention with the length, of decoding with it, of training with the corpus.

``python -m benchmarks.cost`` measures all three, on one thread and with what is compared taking
turns, and leaves a record of each in this folder (:mod:`benchmarks.growth` says how to read it).
"""
