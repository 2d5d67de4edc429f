"""The notebook extension, in a real IPython shell."""

import ast
import math
import re
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell

from tfmr import notebook
from tfmr.attention import MultiHeadAttention, causal_mask
from tfmr.errors import TfmrError
from tfmr.notebook import EXPLANATION, approximate, show_script, show_source
from tools.verify import APPROXIMATE


@pytest.fixture
def shell() -> Iterator[Any]:
    made = InteractiveShell()
    made.run_line_magic("load_ext", "tfmr.notebook")
    yield made
    made.run_line_magic("unload_ext", "tfmr.notebook")


def test_a_failing_comparison_is_explained_and_the_cell_continues(
    shell: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    done = shell.run_cell("x = 0.612\nassert round(x, 3) == 0.576\nprint('next')")
    out, err = capsys.readouterr()
    assert done.success
    assert out == "next\n"
    assert err == (
        "This differs from the book, where\n    round(x, 3) == 0.576\nholds; here the left side is "
        f"0.612 and the right side is 0.576.\n{EXPLANATION}\n"
    )


@pytest.mark.parametrize("sign", ["==", "!=", "<", "<=", ">", ">="])
def test_a_comparison_is_evaluated_once_and_as_in_python(
    shell: Any, capsys: pytest.CaptureFixture[str], sign: str
) -> None:
    for left in (1, 2, 3):
        code = f"n = []\ndef f():\n    n.append(1)\n    return {left}\nassert f() {sign} 2"
        assert shell.run_cell(code).success
        assert shell.user_ns["n"] == [1]
        reported = f"\n    f() {sign} 2\n" in capsys.readouterr().err
        assert reported is not eval(f"{left} {sign} 2")


@pytest.mark.parametrize("code", ["assert x", "assert not 1", "assert x or y, 'why'"])
def test_other_conditions_are_reported_with_their_code(
    shell: Any, capsys: pytest.CaptureFixture[str], code: str
) -> None:
    assert shell.run_cell(f"x = y = 0\n{code}").success
    condition = code.removeprefix("assert ").removesuffix(", 'why'")
    assert f"\n    {condition}\nholds; here it is " in capsys.readouterr().err


NAMES = "import math, torch\nfrom math import inf, isclose, nan\n"
NAMES += "x, y, a = 2, 2.5, torch.tensor([1.0, 2.0, 3.0], requires_grad=True)"
FORMS = {
    "x in [4, 5]": "the left side is 2 and the right side is [4, 5]",
    "a.sum() > 9": "the left side is 6 and the right side is 9",
    "x / 6 == 0.3333333333": (
        "the left side is 0.3333333333333333 and the right side is 0.3333333333"
    ),
    "1 < x < y < 2": "the compared values are 1, 2, 2.5 and 2",
    "3 < x < y": "the compared values are 3 and 2",
    "isclose(x, y, rel_tol=0.1)": "the values are 2 and 2.5",
    "math.isclose(nan, 1)": "the values are nan and 1",
    "torch.isclose(a[0], a[1])": "the values are 1 and 2",
    "torch.equal(a, a + 1)": "the largest absolute difference is 1",
    "torch.equal(a > 1, a > 2)": "the largest absolute difference is 1",
    "torch.equal(1j * a, 3j * a)": "the largest absolute difference is 6",
    "torch.equal(a[:0], a[:1])": "the shapes are (0,) and (1,)",
    "torch.equal(a / 0, torch.tensor([inf, inf, 2]))": "the largest absolute difference is inf",
    "torch.equal(a / 0, torch.tensor([inf, nan, inf]))": "the largest absolute difference is nan",
    "torch.allclose(a, a * nan)": "the largest absolute difference is nan",
    "torch.allclose(a, a.flip(0), atol=0.5)": "the largest absolute difference is 2",
    "torch.allclose(a, a.max())": (
        "the shapes are (3,) and () and the largest absolute difference is 2"
    ),
    "torch.allclose(a, a[:2])": "the shapes are (3,) and (2,)",
    "(a == 2).all()": "it holds for 1 of 3 elements",
    "(a * nan < 2).all()": "it holds for 0 of 3 elements",
    "(a == a[:2]).all()": "the shapes are (3,) and (2,)",
}


@pytest.mark.parametrize(("test", "values"), FORMS.items())
def test_a_test_is_reported_with_its_values(
    shell: Any, capsys: pytest.CaptureFixture[str], test: str, values: str
) -> None:
    assert shell.run_cell(NAMES).success
    assert shell.run_cell(f"assert {test}").success
    assert capsys.readouterr() == (
        "",
        f"This differs from the book, where\n    {test}\nholds; here {values}.\n{EXPLANATION}\n",
    )


PARTS = {
    "x < 3 and x > 3": ("x > 3", " the left side is 2 and the right side is 3"),
    "x and (x == 3 and y)": ("x == 3", " the left side is 2 and the right side is 3"),
    "all(k < 2 for k in range(5))": (
        "k < 2 for k in range(5)",
        ", for k = 2, the left side is 2 and the right side is 2",
    ),
    "all(i and i < k for k in (2, 1) for i in (1, 1) if k for _ in [i])": (
        "i < k for k in (2, 1) for i in (1, 1) if k for _ in [i]",
        ", for k = 1 and i = 1, the left side is 1 and the right side is 1",
    ),
    "all(all(i < k for i in (0, 1)) for k in (2, 1))": (
        "i < k for i in (0, 1) for k in (2, 1)",
        ", for k = 1 and i = 1, the left side is 1 and the right side is 1",
    ),
}


@pytest.mark.parametrize(("test", "part", "values"), [(k, *v) for k, v in PARTS.items()])
def test_only_the_part_that_fails_is_reported(
    shell: Any, capsys: pytest.CaptureFixture[str], test: str, part: str, values: str
) -> None:
    assert shell.run_cell(NAMES).success
    assert shell.run_cell(f"assert {test}").success
    err = f"This differs from the book, where\n    {part}\nholds; here{values}.\n{EXPLANATION}\n"
    assert capsys.readouterr() == ("", err)


@pytest.mark.parametrize(
    "test",
    [
        *("[1] and True", "x == 2 and y and a[0] == 1", "1 < x < y < 3", "x == 2 == len(a) - 1"),
        "x is x and x is not y and x in (2, 3) and x not in (3, 4)",
        *("torch.equal(a, a.clone())", "torch.allclose(a, a + 1, atol=1)", "isclose(x, x)"),
        *("torch.allclose(a * nan, a * nan, equal_nan=True)", "torch.isclose(a[0], a[0])"),
        *("math.isclose(x, y, abs_tol=1)", "(a == a).all()", "(a > torch.zeros(2, 3)).all()"),
        *("all(0 < k < 5 and k for k in range(1, 5))", "all(k for k in [])"),
    ],
)
def test_a_test_that_holds_prints_nothing(
    shell: Any, capsys: pytest.CaptureFixture[str], test: str
) -> None:
    assert shell.run_cell(NAMES).success
    assert shell.run_cell(f"assert {test}").success
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("test", "evaluated"),
    [
        ("f(1) and f(0) and f(2)", [1, 0]),
        ("f(1) and f(2)", [1, 2]),
        ("f(0) or f(2)", [0, 2]),
        ("f(1) < f(2) < f(3)", [1, 2, 3]),
        ("f(2) < f(1) < f(3)", [2, 1]),
        ("f(1) == f(1) == f(2) == f(3)", [1, 1, 2]),
        ("f(1) < (g := f(2)) and g == f(3)", [1, 2, 3]),
        ("isclose(f(1), f(2), abs_tol=f(0))", [1, 2, 0]),
        ("torch.equal(f(a[0]), f(a[1]))", [1, 2]),
        ("(f(a[0]) == f(a[1])).all()", [1, 2]),
        ("all(f(k) < f(2) for k in f(range(4)))", [range(4), 0, 2, 1, 2, 2, 2]),
        ("all(f(k) for k in (1, 0, 2))", [1, 0]),
    ],
)
def test_operands_are_evaluated_once_and_as_in_python(
    shell: Any, capsys: pytest.CaptureFixture[str], test: str, evaluated: list[Any]
) -> None:
    definition = "done = []\ndef f(value):\n    done.append(value)\n    return value"
    assert shell.run_cell(f"{NAMES}\n{definition}").success
    assert shell.run_cell(f"assert {test}").success
    assert shell.user_ns["done"] == evaluated
    shell.user_ns["done"] = []
    holds = bool(eval(test, shell.user_ns))
    assert shell.user_ns["done"] == evaluated
    assert (capsys.readouterr().err == "") is holds


def test_an_error_in_a_test_is_raised(shell: Any) -> None:
    assert shell.run_cell(NAMES).success
    mixed = "torch.allclose(a, a.double())"
    for test in (mixed, "a == a and x", "0 < x < 1 / 0", "(x == 2).all()"):
        assert shell.run_cell(f"assert {test}").error_in_exec is not None


def test_nested_asserts_report_and_those_of_functions_raise(
    shell: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert shell.run_cell("for k in range(2):\n    assert k == 1").success
    assert capsys.readouterr().err.count("k == 1") == 1
    assert not shell.run_cell("def f(x):\n    assert x == 1\nf(2)").success


def test_an_error_of_the_package_has_the_lines_of_the_cells_only(
    shell: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    shell.run_cell(
        "from tfmr.attention import causal_mask\ndef mine(n):\n    return causal_mask(n)"
    )
    done = shell.run_cell("n = 0\nmine(n)")
    assert isinstance(done.error_in_exec, TfmrError)
    first, *lines = capsys.readouterr().out.strip().splitlines()
    assert first.startswith("TfmrError: a causal mask needs 0 < query <= key")
    assert lines == [
        "line 2 of the cell: mine(n)",
        "line 3 of the cell: return causal_mask(n)",
        "The full traceback: %tb",
    ]
    shell.run_line_magic("tb", "")
    assert "attention.py" in capsys.readouterr().out


def test_other_errors_are_shown_as_usual(shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    shell.run_cell("1 / 0")
    assert "ZeroDivisionError" in capsys.readouterr().out


def test_unloading_restores_asserts(capsys: pytest.CaptureFixture[str]) -> None:
    made = InteractiveShell()
    made.run_line_magic("load_ext", "tfmr.notebook")
    made.run_line_magic("unload_ext", "tfmr.notebook")
    done = made.run_cell("assert 1 == 2")
    assert isinstance(done.error_in_exec, AssertionError)


def test_source_is_shown_as_markdown() -> None:
    shown = show_source(causal_mask, MultiHeadAttention.forward)
    assert repr(shown) == "source code of causal_mask, MultiHeadAttention.forward"
    text = shown._repr_markdown_()
    first, second = text.split("\n\n*tfmr")
    assert first.startswith("*tfmr/attention.py:*\n\n```python\ndef causal_mask(")
    assert first.endswith("```")
    assert second.startswith("/attention.py:*\n\n```python\ndef forward(")


def test_docstrings_are_shortened_to_their_first_paragraph() -> None:
    code = '''class A:
    """One.

    More.
    """

    def f(self):
        r"""Two
        lines.

        More.
        """
        return """a

        b"""

    def g(self):
        """Three."""'''
    assert (
        notebook.shorten_docstrings(code)
        == '''class A:
    """One."""

    def f(self):
        r"""Two
        lines."""
        return """a

        b"""

    def g(self):
        """Three."""'''
    )


def test_only_code_can_be_shown() -> None:
    with pytest.raises(TfmrError, match="got int"):
        show_source(1)


def test_long_values_are_shortened() -> None:
    assert notebook._short(list(range(100))) == "[0, 1, 2, 3, 4, 5, ...]"
    assert notebook._short(1 / 3) == "0.333333"


def test_the_source_of_javascript_is_shown_whole() -> None:
    shown = show_script("transformer.js", "causalMask", "softmax", "newCaches")
    assert repr(shown) == (
        "source code of causalMask, softmax, newCaches in tfmr/widgets/transformer.js"
    )
    text = shown._repr_markdown_()
    assert text.startswith("*tfmr/widgets/transformer.js:*\n\n```javascript\n/** Whether query i ")
    assert text.count("/**") == text.count("export ") == 3
    assert "  return powers.map((power) => power / total);\n}\n\n/** " in text
    assert text.endswith(";\n```")


def test_a_whole_file_of_javascript_is_shown_folded() -> None:
    shown = show_script("transformer.js")
    assert repr(shown) == "source code of tfmr/widgets/transformer.js"
    code = (files("tfmr") / "widgets" / "transformer.js").read_text("utf-8")
    lines = len(code.splitlines())
    assert shown._repr_markdown_() == (
        f"<details>\n<summary>tfmr/widgets/transformer.js ({lines} lines)</summary>\n\n"
        f"```javascript\n{code}```\n\n</details>"
    )


@pytest.mark.parametrize(
    ("name", "function", "message"),
    [
        ("none.js", "softmax", "tfmr/widgets.*got 'none.js'"),
        ("transformer.js", "soft", "function.*transformer.js.*got 'soft'"),
        ("transformer.js", "dot", "function.*transformer.js.*got 'dot'"),
    ],
)
def test_an_unknown_script_or_function_is_an_error(name: str, function: str, message: str) -> None:
    with pytest.raises(TfmrError, match=message):
        show_script(name, function)


def test_a_number_within_its_tolerance_is_marked(capsys: pytest.CaptureFixture[str]) -> None:
    assert approximate(0.384, 0.37, 0.015) == "≈ 0.38"
    assert approximate(-0.384, -0.39, 0.01, "+.1%") == "≈ -38.4%"
    assert approximate(1234.4, 1230.0, 5.0, "6,.0f") == "≈  1,234"
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("value", [0.35, 0.41, math.nan])
def test_a_number_outside_its_tolerance_is_reported_and_shown(
    value: float, capsys: pytest.CaptureFixture[str]
) -> None:
    assert approximate(value, 0.38, 0.02) == f"≈ {value:.2f}"
    difference = f"This differs from the book: 0.38 ± 0.02; here it is ≈ {value:.2f}."
    assert capsys.readouterr() == ("", f"{difference}\n{EXPLANATION}\n")


def test_no_other_function_writes_the_mark() -> None:
    assert re.sub(*APPROXIMATE, approximate(0.3, 0.3, 0.1, "8.2f")) == "≈ a number"
    package = Path(notebook.__file__).parent
    writing = [
        path.name
        for path in package.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.JoinedStr) and "≈" in ast.unparse(node)
    ]
    assert writing == ["notebook.py"]
