"""One figure of every function that the book draws with, with names and numbers as in the book."""

import math
import re
from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from tfmr.attention import causal_mask
from tfmr.data import pocket
from tfmr.data.report import DataReport
from tfmr.data.tokenizer import Tokenizer
from tfmr.figures import analysis, architecture, attention, layers, position, recurrence, training
from tfmr.figures.complexity import accuracy_panels, paths, relative_time
from tfmr.figures.cost import Scaling, attention_cost, corpus_size, decoding_cost
from tfmr.figures.decoding import (
    Candidate,
    beam_tree,
    effects_of_the_beam,
    length_penalty,
    next_token_distributions,
)
from tfmr.figures.devices import attention_tiles, memories, roofline
from tfmr.figures.division import held, pipeline, ring
from tfmr.figures.family import change_effects, distance_ranges, family_blocks
from tfmr.figures.lengths import length_histograms
from tfmr.figures.model import parameter_counts, transformer_shapes
from tfmr.figures.parallel import stored_bytes
from tfmr.figures.primer import (
    angles,
    computation_graph,
    descent_paths,
    embedding_lookup,
    matrix_product,
    surprisal_curve,
)
from tfmr.figures.scale import memory_bars, scaling_curves
from tfmr.figures.seq2seq import (
    accuracy_by_length,
    attention_step,
    fixed_context_vs_attention,
    score_by_length,
)
from tfmr.figures.style import Figure
from tfmr.position import sinusoidal
from tfmr.train.trainer import StepRecord

GERMAN = re.findall(r"\S+", "Ein Mann mit einem orangefarbenen Hut , der etwas an st ar rt .")
ENGLISH = re.findall(r"\S+", "A man in an orange hat star ring at something . <eos>")
SENTENCE = re.findall(r"\S+", "A dog ate the food because it was hungry")
WELL = ["All", "is", "well"]
POCKET_WORDS = Tokenizer.words(text for pair in pocket.generate("en-fr", 2000, 0) for text in pair)
DOG = ["the", "tall", "dog", "barks"]


def weights(*shape: int) -> Tensor:
    """Attention weights; the last axis of ``shape`` is that of the keys."""
    generator = torch.Generator().manual_seed(0)
    return (4 * torch.randn(*shape, generator=generator)).softmax(dim=-1)


def falling(start: int | float, end: int | float, number: int) -> list[float]:
    """A geometric series of ``number`` values."""
    return [start * (end / start) ** (i / (number - 1)) for i in range(number)]


def arcs() -> Figure:
    of_it = {"dog": 0.878, "food": 0.052, "hungry": 0.052}
    shown = torch.tensor([of_it.get(word, 0.003) for word in SENTENCE])
    return attention.attention_arcs(SENTENCE, shown, query=SENTENCE.index("it"), digits=3)


def steps() -> Figure:
    A = weights(3, 3)
    return attention.attention_steps(["I", "am", "good"], 5 * A - 3, 3 * A - 2, A, A[:, :2] - 1)


def heads() -> Figure:
    A = weights(2, 3, 3)
    pairs = torch.tensor([[[1.0, 0], [1, 1], [2, -1]], [[2, 0], [0, 1], [-1, 2]]])
    return attention.head_matrices(WELL, pairs, pairs.flip(1), pairs, A, 2 * A[:, :, :2])


def splits() -> Figure:
    token = torch.arange(4).repeat_interleave(4).view(4, 4)
    by_head = token.view(4, 2, 2).transpose(0, 1)
    return attention.head_splits(
        [*WELL, "now"], {"transpose": by_head, "view only": token.view(2, 4, 2)}
    )


def masks() -> Figure:
    mask = causal_mask(6)
    named = dict.fromkeys(("encoder only", "decoder only", "encoder–decoder"), mask)
    return attention.mask_panels(list("abcxyz"), list("abcxyz"), named)


def saturation() -> Figure:
    names = ("divided by √d_k", "not divided")
    entropies = {name: falling(2, end, 5) for name, end in zip(names, (1.9, 0.01), strict=True)}
    slopes = {name: falling(0.3, end, 5) for name, end in zip(names, (0.3, 1e-6), strict=True)}
    return attention.softmax_saturation((4, 16, 64, 256, 512), entropies, slopes, keys=10)


def descent() -> Figure:
    by_rate = {rate: [6 * (1 - rate) ** t for t in range(7)] for rate in (0.1, 0.9, 1.05)}
    return descent_paths(lambda w: (w - 3) ** 2, by_rate)


def product() -> Figure:
    X, W = torch.tensor([[1.0, 2, 0], [0, 1, 3]]), torch.tensor([[2.0, 0], [1, 1], [0, -1]])
    return matrix_product(X, W)


def recall() -> Figure:
    distances = (2, 5, 10, 20, 40, 60)
    seeds = {distance: [1.0, 0.5, 0.24] for distance in distances}
    return recurrence.recall_by_distance(
        dict.fromkeys(("RNN", "LSTM, bias 1", "LSTM, bias 5"), seeds), 0.25, "Curves."
    )


def by_length() -> Figure:
    seeds = [falling(1, 0.01, 7)] * 2
    names = ("one vector", "one vector, twice the steps", "attention")
    return accuracy_by_length(range(2, 16, 2), dict.fromkeys(names, seeds), "number of digits")


def bleu_by_length() -> Figure:
    named = dict.fromkeys(("RNN", "GRU", "LSTM", "LSTM with attention"), [falling(33, 10, 5)] * 3)
    return score_by_length(["1–7", "8–9", "10–11", "12–14", "15+"], named)


def words() -> Figure:
    source = ["Eine", "Frau", "liest", "im", "Park", "ein", "Buch."]
    target = ["A", "woman", "is", "reading", "a", "book", "in", "the", "park."]
    return training.alignment(source, target, weights(9, 7))


def stacks() -> Figure:
    names = ("plain, Xavier", "plain", "residual", "scaled residual", "post-norm", "pre-norm")
    rates = (3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2)
    steps = {rate: [20 * k, 30 * k, None] for k, rate in enumerate(rates, 1)}
    return layers.steps_to_learn(dict.fromkeys(names, steps), 600)


def depth() -> Figure:
    kinds = ("f(x)", "x + f(x)", "x + f(LN(x))")
    return layers.norms_by_depth({kind: falling(2e6, 30, 33) for kind in kinds}, "gradient norm")


def influence() -> Figure:
    panels = {"all": weights(8, 8), "causal": weights(8, 8).tril()}
    return architecture.input_influence(panels)


def shapes() -> Figure:
    source = [("source ids", (1, 5)), ("embedding, position", (1, 5, 8)), ("encoder", (1, 5, 8))]
    target = [("target ids", (1, 3)), ("embedding, position", (1, 3, 8)), ("decoder", (1, 3, 8))]
    return transformer_shapes(source, [*target, ("logits", (1, 3, 12))])


def parameters() -> Figure:
    names = ("embeddings", "encoder", "decoder")
    counts = {"base": (18.9, 18.9, 25.2), "big": (37.9, 75.6, 100.8)}
    return parameter_counts(
        {
            model: {name: int(1e6 * million) for name, million in zip(names, row, strict=True)}
            for model, row in counts.items()
        }
    )


def curve() -> Figure:
    records = [StepRecord(t, 5 / t, 2 / t, 10.0 + t, 0.001, 100, float(t)) for t in range(1, 601)]
    return training.training_curve(records, floor=0.5)


def sizes() -> Figure:
    pairs = (1813, 3625, 7250, 14500, 29000)
    return corpus_size(
        pairs, falling(1, 14.7, 5), falling(1.2, 2.7, 5), falling(3.4, 2.7, 5), falling(9, 22, 5)
    )


def tree() -> Figure:
    steps = (
        ((0, "the", -0.51), (0, "dogs", -0.92)),
        ((0, "dogs", -1.2), (0, "hounds", -1.71), (0, "animals", -2.12), (1, "sleep", -1.02)),
        ((0, "sleep", -1.56), (0, "doze", -2.41), (3, "<eos>", -1.02)),
    )
    candidates = [[Candidate(*one, kept=True) for one in step] for step in steps]
    return beam_tree(candidates, best=(2, 2))


def beams() -> Figure:
    runs = [[-9.1, -8.2, -7.3, -7.9]] * 3
    measures = dict.fromkeys(("log-probability", "length ÷ reference", "BLEU"), runs)
    return effects_of_the_beam(["1", "4", "64", "64, α = 0.6"], measures)


def distributions() -> Figure:
    panels = dict.fromkeys(("unchanged", "temp. ½", "top-k 2", "top-p 0.8"), (0.53, 0.3, 0.17, 0))
    return next_token_distributions(["first", "second", "third", "fourth"], panels)


def implementations() -> Figure:
    lengths = (64, 256, 1024, 4096)
    scaling = Scaling(lengths, falling(1e-3, 4, 4), 2.0, 256)
    named = dict.fromkeys(("naive", "one query at a time"), scaling)
    return attention_cost(named, named)


def decoding() -> Figure:
    lengths = (16, 32, 64, 96, 128, 192, 256)
    return decoding_cost(lengths, falling(0.058, 3.155, 7), falling(0.013, 0.159, 7))


def maps() -> Figure:
    kinds = ("decoder 3, head 2: 16 thousandths", "decoder 1, head 1: 41 thousandths")
    tokens = (ENGLISH, ["<bos>", *ENGLISH[:-1]])
    return analysis.attention_maps(
        {kind: weights(12, 12) for kind in kinds}, dict.fromkeys(kinds, tokens)
    )


def grid() -> Figure:
    labels = [["mixed", "mixed", "previous", "18 of 19"]] * 3
    return analysis.head_grid(weights(3, 4, 14, 14), labels, tokens=(GERMAN, GERMAN), large=(1, 2))


def ablated_heads() -> Figure:
    table = [[-0.1, 9.0, 56.0, 41.0]] * 3
    kinds: Mapping[str, Sequence[Sequence[float]]]
    kinds = dict.fromkeys(("encoder", "decoder", "cross"), table)
    return analysis.head_ablation(kinds, "Decrease in BLEU", half_widths=kinds)


def ablated_sublayers() -> Figure:
    lost = {
        "encoder": {"self 1": 1.0, "feed 2": -0.3, "feed 3": 0.2},
        "decoder": {"cross 1": 3.5, "feed 1": 28.7, "feed 3": 6.5},
    }
    ends = {
        group: {name: (value - 1.1, value + 1.2) for name, value in named.items()}
        for group, named in lost.items()
    }
    return analysis.sublayer_ablation(lost, "BLEU", intervals=ends)


def lens() -> Figure:
    inputs = ["<bos>", "A", "woman", "is", "reading", "a", "book", "in", "the", "park"]
    predicted = [[a, a, b, b] for a, b in zip(inputs, [*inputs[1:], "."], strict=True)]
    return analysis.lens_table(inputs, predicted, weights(10, 4))


def patching() -> Figure:
    tokens = {
        "encoder": ["Ein", "Hund/Mann", "läuft", "durch", "den", "Park", "."],
        "decoder": ["<bos>", "A"],
    }
    return analysis.patching_effects({"encoder": weights(4, 7), "decoder": weights(4, 2)}, tokens)


def layer_types() -> Figure:
    n = 9

    def window(size: int, dilation: int = 1) -> list[tuple[int, int]]:
        taps = [j * dilation for j in range(size)]
        return [(i - tap, i) for i in range(n) for tap in taps if i >= tap]

    recurrent = [(i, i) for i in range(n)] + [(-1 - i, -2 - i) for i in range(n - 1)]
    return paths(
        {
            "recurrent": [recurrent],
            "convolution\n$k=3$": [window(3)] * 4,
            "dilated\n$k=3$": [window(3), window(3, dilation=3)],
            "self-attention": [window(n)],
            "local\n$r=4$": [window(5)] * 2,
        },
        n,
    )


def distances() -> Figure:
    names = ("recurrent (RNN)", "recurrent (LSTM)", "dilated convolution", "self-attention")
    seeds = [falling(1, 0.25, 6)] * 5
    return accuracy_panels(
        "distance", [4 * 2**i for i in range(6)], dict.fromkeys(names, seeds), 0.25
    )


def changes() -> Figure:
    names = ("pre-norm", "rotary positions", "grouped-query attention", "separate output matrix")
    return change_effects(dict.fromkeys(names, (-0.012, -0.088, 0.024)), "the block of 2017")


def memory() -> Figure:
    parts = {"weights": 0.86, "gradients": 0.86, "Adam": 1.71, "blocks": 20.35, "logits": 3.82}
    return memory_bars(dict.fromkeys(("base, 98 pairs", "big, 784 pairs"), parts))


def laws() -> Figure:
    def law(n: int, d: int) -> float:
        return 1 + 20 / math.log(n) + 20 / math.log(d)

    weights_and_tokens = (6560, 14000, 25000, 57000, 100000, 224000), (23000, 46000, 93000, 187000)
    ns, ds = weights_and_tokens
    return scaling_curves({(n, d): [law(n, d)] for n in ns for d in ds}, law)


def processes() -> Figure:
    parts = {"weights": 1050000, "gradients": 1050000, "moments": 2110000}
    runs = {"1 process": 1, "DDP, 2": 2, "FSDP, 2": 2, "DDP, 4": 4, "FSDP, 4": 4}
    return stored_bytes({name: [parts] * number for name, number in runs.items()})


def divided() -> Figure:
    grids = [[[row == k] * 4 for row in range(4)] for k in range(4)]
    parts = ("weights", "gradients", "moments")
    return held([dict.fromkeys(parts, grid) for grid in grids])


def levels() -> Figure:
    return memories(
        [
            ("SRAM, on the chip", "19 TB/s", "20 MB"),
            ("HBM, the memory of the GPU", "1.5 TB/s", "40 GB"),
            ("memory of the computer", "12.8 GB/s", "more than 1 TB"),
        ]
    )


def bounds() -> Figure:
    points = {"decoding, 59 texts": (31.0, 1e14), "prefill, 1 x 8,192": (8000.0, 9.89e14)}
    return roofline({"decoding, 1 text": (1.0, 3.35e12), **points}, 989e12, 3.35e12)


def position_accuracy() -> Figure:
    names = ("rotary", "sinusoidal", "learned", "no encoding")
    curves = {name: falling(1, 0.1, 28) for name in names}
    return position.accuracy_by_position(
        curves, first=3, trained_length=16, chance=1 / 16, alt="Curves."
    )


def neighbours() -> Figure:
    bump = [256.0 - abs(distance) for distance in range(-50, 51)]
    return position.dot_product_by_distance(dict.fromkeys((60, 150, 400), bump), max_distance=50)


def norms() -> Figure:
    names = ("0.9", "1.0", "1.1", "1.1, noise")
    return recurrence.norms_by_distance(
        {name: falling(1, 1e-3, 61) for name in names}, "norm of the Jacobian"
    )


def penalties() -> Figure:
    named = {f"α = {a}": [((5 + n) / 6) ** a for n in range(1, 61)] for a in (0, 0.6, 1)}
    return length_penalty(range(1, 61), named)


EXAMPLES: Mapping[str, Callable[[], Figure]] = {
    "accuracy_panels": distances,
    "accuracy_by_length": by_length,
    "accuracy_by_position": position_accuracy,
    "activation_functions": layers.activation_functions,
    "alignment": words,
    "angles": lambda: angles(
        {("u", "v"): ((3.0, 4.0), (4.0, 3.0)), ("u", "w"): ((3.0, 4.0), (4.0, -3.0))}
    ),
    "attention_arcs": arcs,
    "attention_cost": implementations,
    "attention_maps": maps,
    "attention_tiles": lambda: attention_tiles(4, 5, (1, 2)),
    "attention_rows": lambda: attention.attention_rows(
        ["Tom", "saw", "Ann"], {name: weights(3) for name in ("one head", "head 1", "head 2")}
    ),
    "attention_step": attention_step,
    "attention_steps": steps,
    "backpropagation_through_time": lambda: recurrence.backpropagation_through_time(
        DOG, truncation=2
    ),
    "beam_tree": tree,
    "change_effects": changes,
    "computation_graph": lambda: computation_graph(w=3, x=2),
    "corpus_size": sizes,
    "decoder_block": architecture.decoder_block,
    "decoding_cost": decoding,
    "descent_paths": descent,
    "distance_ranges": lambda: distance_ranges(torch.arange(144).reshape(12, 12) % 14),
    "dot_product_by_distance": neighbours,
    "effects_of_the_beam": beams,
    "embedding_lookup": lambda: embedding_lookup(
        ["the", "dog", "sees", "the"], [5, 2, 3, 5], torch.arange(12.0).reshape(6, 2)
    ),
    "encoder_block": architecture.encoder_block,
    "encoder_decoder_stacks": architecture.encoder_decoder_stacks,
    "family_blocks": family_blocks,
    "fixed_context_vs_attention": lambda: fixed_context_vs_attention(
        ["the", "black", "cat"], ["le", "chat", "noir"], query=1, weights=[0.043, 0.044, 0.913]
    ),
    "gradient_norm_curves": lambda: layers.gradient_norm_curves(
        {"post-norm": [1.0] * 200}, "Curves."
    ),
    "gates_over_time": lambda: recurrence.gates_over_time(
        list("AxyBzxyCyx"), dict.fromkeys(("forget gates", "update gates"), weights(10, 3))
    ),
    "growing_cache": lambda: architecture.growing_cache(["<bos>", *ENGLISH[:8]], source=8),
    "gru_cell": recurrence.gru_cell,
    "head_ablation": ablated_heads,
    "head_grid": grid,
    "head_matrices": heads,
    "head_splits": splits,
    "held": divided,
    "input_influence": influence,
    "learning_rate_schedule": lambda: training.learning_rate_schedule(
        {"base, 4000 steps": (0.0007, 4000), "8000 steps": (0.0005, 8000)}, 20000
    ),
    "length_penalty": penalties,
    "lens_table": lens,
    "length_histograms": lambda: length_histograms(
        DataReport.of(pocket.split("en-fr", 300, 30, 30), POCKET_WORDS, 30)
    ),
    "loss_gallery": lambda: training.loss_gallery(
        {name: [[(0, 6.9, 6.8), (40, 0.2, 0.3)]] for name in ("healthy", "200 pairs", "no shift")}
    ),
    "loss_curves": lambda: layers.loss_curves({"post-norm": [1.0] * 200}, 2.77, "Curves."),
    "lstm_cell": recurrence.lstm_cell,
    "lstm_walk": lambda: recurrence.lstm_walk(c=1.0, f=0.881, i=0.5, g=0.762, o=0.5),
    "mask_panels": masks,
    "matrix_product": product,
    "memories": levels,
    "memory_bars": memory,
    "multi_head_attention": attention.multi_head_attention,
    "next_token_distributions": distributions,
    "norm_placement": layers.norm_placement,
    "normalisation_axes": lambda: layers.normalisation_axes(6, 8),
    "norms_by_depth": depth,
    "norms_by_distance": norms,
    "parameter_counts": parameters,
    "patching_effects": patching,
    "paths": layer_types,
    "pipeline": lambda: pipeline(4, 6),
    "query_key_value": attention.query_key_value,
    "recall_by_distance": recall,
    "relative_time": lambda: relative_time(
        "sentences",
        (1, 4, 16, 64, 256),
        dict.fromkeys(("RNN", "LSTM", "nn.RNN", "nn.LSTM"), falling(6.6, 0.5, 5)),
        "self-attention",
    ),
    "right_shift": lambda: architecture.right_shift(
        ["<bos>", "the", "cat", "eats", "fish", "<eos>"]
    ),
    "ring": lambda: ring([(1, 2, 3), (10, 20, 30), (100, 200, 300)]),
    "roofline": bounds,
    "rotary_angles": lambda: position.rotary_angles(
        [(1, 3), (4, 6), (3, 1)], omega=math.radians(30)
    ),
    "scaling_curves": laws,
    "score_by_length": bleu_by_length,
    "shift_as_rotation": lambda: position.shift_as_rotation(
        [1.0, 10**-0.5, 0.1], starts=[0, 5], k=2
    ),
    "sinusoidal_table": lambda: position.sinusoidal_table(sinusoidal(60, 64)),
    "sinusoids": lambda: position.sinusoids(sinusoidal(60, 512), [0, 32, 96]),
    "smoothed_target": lambda: training.smoothed_target(
        ["correct", "second", "third"], [0.933, 0.033, 0.033], [0.7, 0.2, 0.1]
    ),
    "softmax_saturation": saturation,
    "steps_to_learn": stacks,
    "stored_bytes": processes,
    "sublayer_ablation": ablated_sublayers,
    "training_curve": curve,
    "surprisal_curve": lambda: surprisal_curve([1 / 8, 1 / 4, 1 / 2, 1]),
    "transformer_shapes": shapes,
    "unrolled_rnn": lambda: recurrence.unrolled_rnn(DOG),
}
"""By the name of the function."""
