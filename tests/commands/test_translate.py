"""``translate``: every search, every source of sentences, and options that do not go together."""

import os
import pty
import subprocess
import sys
from dataclasses import replace
from io import BytesIO, TextIOWrapper
from pathlib import Path

import pytest
import torch

import tfmr
from tests.commands.conftest import SENTENCES, Command
from tfmr.commands.translate import _arriving
from tfmr.data import pocket
from tfmr.decode import Sampling, align, translate, translate_each
from tfmr.train import checkpoint
from tfmr.train.checkpoint import load_translator

ROOT = Path(tfmr.__file__).parent.parent
TOKENISED = [pocket.tokenise(sentence) for sentence in SENTENCES]


def lines(texts: list[str]) -> str:
    return "".join(pocket.detokenise(text) + "\n" for text in texts)


def test_the_search_is_the_papers_unless_told_otherwise(command: Command, model: Path) -> None:
    translator = load_translator(model)
    given = ("translate", "--model", model, *SENTENCES)
    wide = lines(translate(*translator, TOKENISED, beam=4, alpha=0.6))
    assert command(*given)[0] == wide
    assert torch.get_float32_matmul_precision() == "medium"
    assert command(*given, "--beam", 1)[0] == lines(translate(*translator, TOKENISED)) != wide
    narrow = lines(translate(*translator, TOKENISED, beam=2, alpha=0.0))
    assert command(*given, "--beam", 2, "--alpha", 0)[0] == narrow


def test_words_of_your_own_are_taken_as_they_are(
    command: Command, refused, model: Path, tmp_path: Path
) -> None:
    saved = checkpoint.load(model / "model.safetensors")
    own = replace(saved, metadata={"corpus": "your files"})
    checkpoint.save(tmp_path / "own.safetensors", own)
    given = ("translate", "--model", tmp_path / "own.safetensors")
    assert "the model never learnt: The" in refused(*given, "The owl sleeps .")
    wanted = translate(own.model(), own.tokenizer, ["the owl sleeps ."], beam=4)
    assert command(*given, "the owl sleeps .")[0] == f"{wanted[0]}\n"


def test_sampling(command: Command, model: Path) -> None:
    translator = load_translator(model)
    given = ("translate", "--model", model, *SENTENCES, "--sample")
    plain = command(*given)[0]
    assert plain == lines(translate(*translator, TOKENISED, sampling=Sampling(), seed=0))
    options = ("--temperature", 0.8, "--top-k", 5, "--top-p", 0.9, "--seed", 3)
    wanted = translate(*translator, TOKENISED, sampling=Sampling(0.8, 5, 0.9), seed=3)
    assert command(*given, *options)[0] == lines(wanted) != plain


def test_alignment_is_a_second_line(command: Command, model: Path) -> None:
    translator, tokenizer = load_translator(model)
    printed = command("translate", "--model", model, *SENTENCES, "--alignment")[0].splitlines()
    assert len(printed) == 2 * len(SENTENCES)
    each = translate_each(translator, tokenizer, TOKENISED, beam=4)
    for translation, line in zip(each, printed[1::2], strict=True):
        pairs = align(translator, tokenizer, translation.source, translation.ids)
        assert line == "\t" + " ".join(f"{source}→{target}" for source, target in pairs)
    assert "→" in printed[1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--sample", "--beam", "4"], "--beam cannot go with --sample"),
        (["--sample", "--alpha", "1"], "--alpha cannot go with --sample"),
        (["--temperature", "0.5"], "--temperature says how to draw: add --sample"),
        (["--top-k", "5", "--seed", "1"], "--top-k, --seed says how to draw: add --sample"),
        (["--beam", "1", "--alpha", "0.6"], "--beam 1 has only one: leave one of them out"),
        (["--beam", "0"], "a beam is at least one hypothesis wide"),
        (["--alpha", "-1"], "alpha must be zero (none) or greater"),
        (["--sample", "--temperature", "0"], "a temperature must be positive"),
        (["--sample", "--top-k", "0"], "top_k is a number of tokens"),
        (["--sample", "--top-p", "2"], "top_p is a share of the probability"),
    ],
)
def test_options_that_do_not_go_together(refused, model: Path, options, message: str) -> None:
    assert message in refused("translate", "--model", model, "The owl sleeps.", *options)


def test_lines_come_as_they_arrive() -> None:
    class Slow(BytesIO):
        def __init__(self, *pieces: bytes) -> None:
            super().__init__()
            self.pieces = list(pieces)

        def read1(self, size: int = -1) -> bytes:
            return self.pieces.pop(0) if self.pieces else b""

    stream = Slow(b"\xef\xbb\xbfa\nb\nc", b"d", b"\xc3", b"\xa9\r\n", b"\n", b"e\nf")
    assert list(_arriving(stream)) == [["a", "b"], ["cdé"], [""], ["e"], ["f"]]
    assert list(_arriving(Slow(b"a\n"))) == [["a"]]
    assert list(_arriving(Slow())) == []


def test_a_stream_is_counted_through_and_keeps_what_was_said(
    monkeypatch, capsys, command: Command, model: Path
) -> None:
    class Lines(BytesIO):
        def read1(self, size: int = -1) -> bytes:
            return self.readline()

    def given(text: str) -> TextIOWrapper:
        return TextIOWrapper(Lines(text.encode()), encoding="utf-8")

    whole = command("translate", "--model", model, *SENTENCES, "--sample")[0]
    monkeypatch.setattr(sys, "stdin", given("\n".join(SENTENCES)))
    assert command("translate", "--model", model, "--sample")[0] == whole
    monkeypatch.setattr(sys, "stdin", given("The owl sleeps.\n\nThe owl sleeps.\n"))
    with pytest.raises(SystemExit):
        command("translate", "--model", model)
    out, err = capsys.readouterr()
    assert len(out.splitlines()) == 1
    assert err == (
        "tfmr: sentence 2 is empty: there is nothing to translate; leave out empty lines\n"
    )


def test_an_empty_standard_input(monkeypatch, refused, model: Path) -> None:
    monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO(b""), encoding="utf-8"))
    assert "standard input is empty" in refused("translate", "--model", model)


def test_a_pipe_and_a_terminal_are_answered_line_by_line(model: Path) -> None:
    """Each answer is there before the next line is given; at a terminal a mistake is no end."""
    settings = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": ""}
    master, terminal = pty.openpty()
    for given in (subprocess.PIPE, terminal):
        with subprocess.Popen(
            [sys.executable, "-m", "tfmr", "translate", "--model", str(model)],
            env=os.environ | settings,
            stdin=given,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            write = process.stdin.write if process.stdin else lambda line: os.write(master, line)
            answers = []
            for sentence in SENTENCES:
                if given == terminal:
                    write(b"dragon\n")
                write(sentence.encode() + b"\n")
                if process.stdin:
                    process.stdin.flush()
                answers.append(process.stdout.readline().decode())
            assert len(set(answers)) > 1
            if process.stdin:
                process.stdin.close()
            else:
                write(b"\x04")
            assert process.wait(timeout=60) == 0
            err = process.stderr.read().decode()
            if given == terminal:
                assert err.startswith("one sentence per line; Ctrl-D ends\n")
                assert "sentence 1 has words that the model never learnt: dragon" in err
                assert err.count("tfmr: ") == len(SENTENCES)
            else:
                assert err == ""
    os.close(terminal)
    os.close(master)
