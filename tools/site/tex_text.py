r"""Formulas as plain text, for places that show no mathematics: ``√d_k`` for ``\sqrt{d_k}``."""

import re
from collections.abc import Callable

TOKEN = re.compile(r"\\[A-Za-z]+|\\.|.", re.DOTALL)
SPACE = re.compile(r"(?<=\\partial) +|(?<=\\l[vV]ert) +|(?<=\\lceil) +| +(?=\\r(?:[vV]ert|ceil)\b)")
"""Spaces without a meaning in TeX that would be seen in the text."""
DOWN, UP, END = "\ue000", "\ue001", "\ue002"
"""Characters around an index and an exponent, until they become text or HTML."""
SCRIPT = re.compile(f"([{DOWN}{UP}])([^{DOWN}{UP}{END}]*){END}")

LONGEST = 40
LEFT_OUT = "…"
"""What stands for a formula that is too long for one line of text, or that has other commands."""

SYMBOLS = {
    **{"alpha": "α", "beta": "β", "delta": "δ", "epsilon": "ε", "varepsilon": "ε", "eta": "η"},
    **{"theta": "θ", "lambda": "λ", "mu": "μ", "pi": "π", "rho": "ρ", "sigma": "σ", "tau": "τ"},
    **{"varphi": "φ", "omega": "ω", "Delta": "Δ", "Pi": "Π", "Phi": "Φ", "ell": "ℓ"},
    **{"cdot": "·", "times": "×", "odot": "⊙", "pm": "±", "approx": "≈", "sim": "∼", "neq": "≠"},
    **{"ne": "≠", "le": "≤", "ge": "≥", "to": "→", "mapsto": "→", "leftarrow": "←", "in": "∈"},
    **{"infty": "∞", "partial": "∂", "sum": "∑", "prod": "∏", "top": "ᵀ", "mid": "|"},
    **{"dots": "…", "cdots": "…", "ldots": "…", "quad": " ", "qquad": " ", ",": "", ";": " "},
    **{"lvert": "|", "rvert": "|", "lVert": "‖", "rVert": "‖", "{": "{", "}": "}", " ": " "},
    **{"lceil": "⌈", "rceil": "⌉", "lfloor": "⌊", "rfloor": "⌋", "%": "%", "!": "", "_": "_"},
    **{name: name for name in ("log", "ln", "exp", "sin", "cos", "tanh", "max", "min", "arg")},
    **dict.fromkeys(("left", "right", "bigl", "bigr", "Bigl", "Bigr"), ""),
}
STYLES = ("mathbf", "mathrm", "mathit", "mathbb", "mathcal", "boldsymbol")
NAMES = (*STYLES, "text", "textit", "textbf", "operatorname")
RAISED = {"2": "²", "3": "³", "ᵀ": "ᵀ", "-1": "⁻¹"}


def plain_math(tex: str) -> str:
    """The formula ``tex`` as plain text, or :data:`LEFT_OUT`."""
    return plain_scripts(marked_math(tex))


def marked_math(tex: str) -> str:
    """The formula ``tex`` as text with marked indices and exponents, or :data:`LEFT_OUT`."""
    tokens = TOKEN.findall(SPACE.sub("{}", tex.strip()))
    try:
        text = "".join(_read(tokens))
    except (KeyError, IndexError):
        return LEFT_OUT
    text = " ".join(text.replace("-", "−").split())
    return text if len(plain_scripts(text)) <= LONGEST else LEFT_OUT


def plain_scripts(text: str) -> str:
    """A text in which indices and exponents are written ``d_k`` and ``e^(−a)``."""

    def plain(found: re.Match[str]) -> str:
        sign, script = "_" if found[1] == DOWN else "^", found[2]
        return sign + (script if re.fullmatch(r"[\w.]+(, ?\w+)*|ᵀ", script) else f"({script})")

    return _innermost_first(plain, text)


def html_scripts(text: str) -> str:
    """An escaped text in which indices and exponents are HTML: ``d<sub>k</sub>``."""

    def html(found: re.Match[str]) -> str:
        tag = "sub" if found[1] == DOWN else "sup"
        return f"<{tag}>{found[2]}</{tag}>"

    return _innermost_first(html, text)


def _innermost_first(written: Callable[[re.Match[str]], str], text: str) -> str:
    while SCRIPT.search(text):
        text = SCRIPT.sub(written, text)
    return text


def _read(tokens: list[str]) -> list[str]:
    """Take tokens until the end or the brace that closes the group; return their texts."""
    parts = []
    while tokens and tokens[0] != "}":
        parts.append(_part(tokens))
    return parts


def _part(tokens: list[str]) -> str:
    """Take one symbol, command or group; raise ``KeyError`` at an unknown command."""
    token = tokens.pop(0)
    if token == "{":
        inside = "".join(_read(tokens))
        tokens.pop(0)
        return inside
    if token in ("_", "^"):
        text = _part(tokens)
        if token == "^" and text in RAISED:
            return RAISED[text]
        return f"{DOWN if token == '_' else UP}{text}{END}"
    if not token.startswith("\\"):
        return token
    command = token[1:]
    if command in ("frac", "tfrac", "dfrac"):
        return f"{_operand(tokens)}/{_operand(tokens)}"
    if command == "sqrt":
        return "√" + _operand(tokens)
    if command in NAMES:
        return _argument(tokens)
    return SYMBOLS[command]


def _operand(tokens: list[str]) -> str:
    """Take one argument; add brackets unless it is a number or a symbol with an index."""
    text = _argument(tokens)
    return text if re.fullmatch(rf"[\d.,]+|∂?\w({DOWN}\w+{END})?", text) else f"({text})"


def _argument(tokens: list[str]) -> str:
    """Take one argument of a command, which may follow after spaces."""
    while tokens[0] == " ":
        tokens.pop(0)
    return _part(tokens)
