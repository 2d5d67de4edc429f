"""Symbols and names have the hues of their roles in formulas and listings, and nothing else has."""

import sys

import pytest
from docutils import nodes

from tools import ROOT

sys.path.insert(0, str(ROOT / "book" / "_ext"))

import formulas
import hues

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


def listing(*names: str) -> str:
    spans = "".join(f'<span class="n">{name}</span>' for name in names)
    return f"<pre>{spans}</pre>"


def test_names_in_a_listing() -> None:
    found = hues.in_listing(listing("q", "k", "v", "w"))
    for name, role in zip("qkv", hues.ROLES, strict=True):
        assert f'<span class="n hue-{role}">{name}</span>' in found
    assert '<span class="n">w</span>' in found


def test_encoder_and_decoder_in_a_listing() -> None:
    found = hues.in_listing(listing("encoder", "decoder"))
    for role in hues.STACKS:
        assert f'<span class="n hue-{role}">{role}</span>' in found


@pytest.mark.parametrize(
    "names",
    [("k", "v"), ("key", "value"), ("q", "x"), ("q", "keys"), ("encoder", "q"), ("decoder",)],
)
def test_a_listing_without_the_first_name_beside_another(names: tuple[str, ...]) -> None:
    assert hues.in_listing(listing(*names)) == listing(*names)


def test_only_the_listings_of_a_page_change() -> None:
    code = f'<div class="highlight">{listing("q", "k")}</div>'
    context = {"body": f"<p>{listing('q', 'k')}</p>{code}"}
    hues.in_page(None, "page", "", context, None)  # type: ignore[arg-type]
    assert context["body"].startswith(f"<p>{listing('q', 'k')}</p>")
    assert "hue-query" in context["body"]
