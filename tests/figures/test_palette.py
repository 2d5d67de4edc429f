"""The colours of the book: legible on light and dark pages, and distinguishable by everyone."""

from itertools import combinations

import pytest
import torch

from tfmr.figures import palette


def matrix(rows: str) -> torch.Tensor:
    return torch.tensor([[float(number) for number in row.split()] for row in rows.split("|")])


# Machado, Oliveira and Fernandes (2009), table 1, severity 1: what a dichromat sees, linear RGB.
SEEN = {
    "everyone": torch.eye(3),
    "protanopia": matrix(
        "0.152286 1.052583 -0.204868 | 0.114503 0.786281 0.099216 | -0.003882 -0.048116 1.051998"
    ),
    "deuteranopia": matrix(
        "0.367322 0.860646 -0.227968 | 0.280085 0.672501 0.047413 | -0.011820 0.042940 0.968881"
    ),
    "tritanopia": matrix(
        "1.255528 -0.076749 -0.178779 | -0.078411 0.930809 0.147602 | 0.004733 0.691367 0.303900"
    ),
}
TO_LMS = matrix(
    "0.4122214708 0.5363325363 0.0514459929 | 0.2119034982 0.6806995451 0.1073969566 | "
    "0.0883024619 0.2817188376 0.6299787005"
)
TO_OKLAB = matrix(
    "0.2104542553 0.7936177850 -0.0040720468 | 1.9779984951 -2.4285922050 0.4505937099 | "
    "0.0259040371 0.7827717662 -0.8086757660"
)
THEMES = {"light": lambda colour: colour, "dark": palette.dark}


def linear(colour: str) -> torch.Tensor:
    parts = torch.tensor(palette.rgb(colour))
    return torch.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def contrast(one: str, other: str) -> float:
    weights = torch.tensor([0.2126, 0.7152, 0.0722])
    low, high = sorted(float(weights @ linear(colour)) for colour in (one, other))
    return (high + 0.05) / (low + 0.05)


def distance(one: str, other: str, seen: torch.Tensor) -> float:
    """Euclidean distance in Oklab (Ottosson, 2020); 0.02 is a just noticeable difference."""
    a, b = (
        TO_OKLAB @ (TO_LMS @ (seen @ linear(colour)).clamp(0, 1)).pow(1 / 3)
        for colour in (one, other)
    )
    return float((a - b).norm())


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("name", ["ink", "muted", *palette.HUES])
def test_text_in_every_hue_is_legible(name: str, theme: str) -> None:
    change = THEMES[theme]
    colour = change((palette.NEUTRAL | palette.HUES)[name])
    for behind in (palette.PAGE, palette.SURFACE):
        assert contrast(colour, change(behind)) >= 4.5


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("seen", SEEN)
def test_hues_are_distinguishable(seen: str, theme: str) -> None:
    change = THEMES[theme]
    nearest = 0.09 if seen == "everyone" else 0.045
    for one, other in combinations(palette.HUES.values(), 2):
        assert distance(change(one), change(other), SEEN[seen]) >= nearest, (one, other)
    roles = list(palette.ROLES.values())
    for group in (roles[:3], roles[3:]):
        for one, other in combinations(group, 2):
            assert distance(change(one), change(other), SEEN[seen]) >= 0.06, (one, other)


def test_every_role_has_a_hue_of_its_own() -> None:
    assert len(set(palette.ROLES.values())) == len(palette.ROLES)
    assert set(palette.ROLES.values()) <= set(palette.HUES.values())
    assert palette.dark("#ffffff") == palette.DARK_PAGE
    assert palette.dark("#000000") == "#ffffff"


def test_css_defines_every_colour_for_light_and_dark() -> None:
    css = palette.css()
    for name, colour in (palette.NEUTRAL | palette.HUES | palette.ROLES).items():
        assert f"--tfmr-{name}: {colour};" in css
        assert f"--tfmr-{name}: {palette.dark(colour)};" in css
    assert css.index("@media screen") < css.index("data-theme")
