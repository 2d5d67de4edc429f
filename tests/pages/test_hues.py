"""Symbols have the hues of their roles in formulas, and nothing else has."""

import pytest
from docutils import nodes

from tools.site import formulas, hues

QUERY, KEY, VALUE = (rf"{{\htmlClass{{hue-{role}}}{{" for role in hues.ROLES)
ENCODER, DECODER = (rf"{{\htmlClass{{hue-{role}}}{{" for role in hues.STACKS)


@pytest.mark.parametrize(
    ("tex", "coloured"),
    [
        (r"Q K^\top", rf"{QUERY}Q}}}} {KEY}K}}}}^\top"),
        (r"V = X W^V", rf"{VALUE}V}}}} = X W^{VALUE}V}}}}"),
        (r"W^Q_i", rf"W^{QUERY}Q}}}}_i"),
        (r"\mathbf q \cdot \mathbf{k}_j", rf"{QUERY}\mathbf q}}}} \cdot {KEY}\mathbf{{k}}}}}}_j"),
        (r"q_i k_i", rf"{QUERY}q}}}}_i {KEY}k}}}}_i"),
        (r"\mathbf{h}_1 \mathbf{h}_n", rf"{ENCODER}\mathbf{{h}}}}}}_1 {ENCODER}\mathbf{{h}}}}}}_n"),
        (r"\mathbf{h}_{j-1}", rf"{ENCODER}\mathbf{{h}}}}}}_{{j-1}}"),
        (
            r"\mathbf{s}_i \mathbf{s}_{0}",
            rf"{DECODER}\mathbf{{s}}}}}}_i {DECODER}\mathbf{{s}}}}}}_{{0}}",
        ),
    ],
)
def test_symbols_of_the_roles(tex: str, coloured: str) -> None:
    assert hues.in_formula(tex) == coloured


@pytest.mark.parametrize(
    "tex",
    [
        r"\lvert \mathcal{V} \rvert",
        r"d_k",
        r"d_{k}",
        r"q(k) \log p(k)",
        r"q_j - 1",
        r"\partial E_k",
        r"\mathbf{v} \cdot \tanh",
        r"\mathrm{KV}",
        r"\sqrt{d_k}",
        r"\mathbf{h}_t",
        r"\operatorname{softmax}(\mathbf{s})_j",
        r"\mathbf s",
        "PE_{(p)}",
    ],
)
def test_other_symbols_have_no_hue(tex: str) -> None:
    assert hues.in_formula(tex) == tex


def test_the_formulas_of_a_page_are_set_with_their_hues() -> None:
    [done] = formulas.typeset([formulas.formula(nodes.math("", "Q"))])
    assert 'class="enclosing hue-query"' in done["html"]
    assert done["html"].endswith(formulas.ENDS)
