"""``translate``: search options, sources of sentences, untranslatable lines, invalid options."""

import gzip
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
from tests.commands.conftest import MAX_LENGTH, SENTENCES, Command
from tfmr import checkpoint
from tfmr.checkpoint import Checkpoint, load_translator, named_weights
from tfmr.commands.translate import _read_chunks
from tfmr.config import TransformerConfig
from tfmr.data.text import canonical
from tfmr.data.tokenizer import Tokenizer
from tfmr.decode import Sampling, align, beam_search, translate, translate_each
from tfmr.errors import TfmrError
from tfmr.fast import prepare
from tfmr.model import Transformer
from tfmr.records import model_names
from tfmr.translator import IncrementalTranslator, Translator

ROOT = Path(tfmr.__file__).parent.parent


def lines(texts: list[str]) -> str:
    return "".join(f"{text}\n" for text in texts)


def test_the_default_search_is_that_of_the_paper(command: Command, model: Path) -> None:
    translator = load_translator(model)
    given = ("translate", "--model", model, *SENTENCES)
    wide = lines(translate(*translator, SENTENCES, beam=4, alpha=0.6))
    assert command(*given)[0] == wide
    assert command(*given, "--beam", 1)[0] == lines(translate(*translator, SENTENCES)) != wide
    narrow = lines(translate(*translator, SENTENCES, beam=2, alpha=0.0))
    assert command(*given, "--beam", 2, "--alpha", 0)[0] == narrow


def test_the_form_of_the_text_belongs_to_the_tokenizer(
    command: Command, model: Path, tmp_path: Path
) -> None:
    """Also without metadata; and a tokenizer of plain text converts nothing."""
    saved = checkpoint.load(model / "model.safetensors")
    own = replace(saved, metadata={})
    checkpoint.save(tmp_path / "own.safetensors", own)
    given = ("translate", "--model", tmp_path / "own.safetensors")
    printed = command(*given, "The owl sleeps.")[0]
    assert printed == command(*given, "the owl sleeps .")[0]
    assert [printed[:-1]] == translate(own.model(), own.tokenizer, ["The owl sleeps."], beam=4)
    plain = replace(own, tokenizer=Tokenizer("words", own.tokenizer.vocabulary))
    checkpoint.save(tmp_path / "own.safetensors", plain)
    expected = translate(plain.model(), plain.tokenizer, ["the owl sleeps ."], beam=4)
    assert command(*given, "the owl sleeps .")[0] == f"{expected[0]}\n"
    with pytest.raises(TfmrError, match=r"sentence 1 .*: The, sleeps"):
        translate(plain.model(), plain.tokenizer, ["The owl sleeps."])


def test_sampling(command: Command, model: Path) -> None:
    translator = load_translator(model)
    given = ("translate", "--model", model, *SENTENCES, "--sample")
    plain = command(*given)[0]
    assert plain == lines(translate(*translator, SENTENCES, sampling=Sampling(), seed=0))
    options = ("--temperature", 0.8, "--top-k", 5, "--top-p", 0.9, "--seed", 3)
    expected = translate(*translator, SENTENCES, sampling=Sampling(0.8, 5, 0.9), seed=3)
    assert command(*given, *options)[0] == lines(expected) != plain


def test_alignment_is_a_second_line(command: Command, model: Path) -> None:
    translator, tokenizer = load_translator(model)
    printed = command("translate", "--model", model, *SENTENCES, "--alignment")[0].splitlines()
    assert len(printed) == 2 * len(SENTENCES)
    each = translate_each(translator, tokenizer, SENTENCES, beam=4)
    for translation, line in zip(each, printed[1::2], strict=True):
        pairs = align(translator, tokenizer, translation.source, translation.ids)
        assert line == "\t" + " ".join(f"{source}→{target}" for source, target in pairs)
    assert "→" in printed[1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--sample", "--beam", "4"], "got --beam with --sample"),
        (["--sample", "--alpha", "1"], "got --alpha with --sample"),
        (["--temperature", "0.5"], "expected --sample with --temperature"),
        (["--top-k", "5", "--seed", "1"], "expected --sample with --top-k, --seed"),
        (["--beam", "1", "--alpha", "0.6"], "--beam 1 is greedy decoding; omit one"),
        (["--beam", "0"], "beam must be at least 1"),
        (["--alpha", "-1"], "alpha, the exponent"),
        (["--sample", "--temperature", "0"], "temperature must be positive"),
        (["--sample", "--top-k", "0"], "top_k must be at least 1"),
        (["--sample", "--top-p", "2"], "top_p must be"),
    ],
)
def test_invalid_options_are_rejected(rejected, model: Path, options, message: str) -> None:
    assert message in rejected("translate", "--model", model, "The owl sleeps.", *options)


def test_lines_are_read_as_they_arrive() -> None:
    class Slow(BytesIO):
        def __init__(self, *pieces: bytes) -> None:
            super().__init__()
            self.pieces = list(pieces)

        def read1(self, size: int = -1) -> bytes:
            return self.pieces.pop(0) if self.pieces else b""

    stream = Slow(b"\xef\xbb\xbfa\nb\nc", b"d", b"\xc3", b"\xa9\r\n", b"\n", b"e\nf")
    assert list(_read_chunks(stream)) == [["\ufeffa", "b"], ["cdé\r"], [""], ["e"], ["f"]]
    assert list(_read_chunks(Slow(b"a\n"))) == [["a"]]
    assert list(_read_chunks(Slow())) == []


def stdin(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Replace standard input by ``text``, of which every read returns one line."""

    class Lines(BytesIO):
        def read1(self, size: int = -1) -> bytes:
            return self.readline()

    given = TextIOWrapper(Lines(text.encode()), encoding="utf-8")
    monkeypatch.setattr(sys, "stdin", given)


def test_seeds_do_not_depend_on_the_chunks_of_a_stream(
    monkeypatch: pytest.MonkeyPatch, command: Command, model: Path
) -> None:
    given = ("translate", "--model", model, "--sample")
    whole = command(*given, *SENTENCES)[0]
    stdin(monkeypatch, "\n".join(SENTENCES))
    assert command(*given)[0] == whole


@pytest.mark.parametrize("source", ["stdin", "file", "arguments"])
def test_an_empty_line_gives_an_empty_line(
    monkeypatch: pytest.MonkeyPatch, command: Command, model: Path, source: str
) -> None:
    owl, boxes, _ = SENTENCES
    given = ("translate", "--model", model, "--beam", 2)
    owls, box = (command(*given, sentence)[0] for sentence in (owl, boxes))
    sentences = ["", owl, " ", "", boxes, ""]
    arguments: tuple[object, ...] = ()
    if source == "stdin":
        stdin(monkeypatch, "\n".join(sentences) + "\n")
    elif source == "file":
        Path("lines").write_text("\n".join(sentences) + "\n")
        arguments = ("--file", "lines")
    else:
        arguments = tuple(sentences)
    out, err = command(*given, *arguments)
    assert out == f"\n{owls}\n\n{box}\n"
    assert err == ""


@pytest.mark.parametrize("source", ["stdin", "arguments"])
def test_a_sentence_that_cannot_be_translated_gives_an_empty_line_and_status_1(
    monkeypatch: pytest.MonkeyPatch, capsys, command: Command, model: Path, source: str
) -> None:
    owl, boxes, _ = SENTENCES
    given = ("translate", "--model", model, "--beam", 1)
    owls, box = (command(*given, sentence)[0] for sentence in (owl, boxes))
    sentences = [owl, "the owl " * MAX_LENGTH, boxes, "the dragon sleeps", owl]
    if source == "stdin":
        stdin(monkeypatch, "\n".join(sentences))
    with pytest.raises(SystemExit) as stop:
        command(*given, *(sentences if source == "arguments" else ()))
    assert stop.value.code == 1
    out, err = capsys.readouterr()
    assert out == f"{owls}\n{box}\n{owls}"
    long, unknown = err.splitlines()
    assert long.startswith("tfmr: sentence 2 ")
    assert str(MAX_LENGTH) in long
    assert unknown.startswith("tfmr: sentence 4 ")
    assert "dragon" in unknown


def test_the_alignment_of_an_empty_line_is_empty(command: Command, model: Path) -> None:
    out, _ = command("translate", "--model", model, "", SENTENCES[0], "--alignment")
    lines = out.splitlines()
    assert lines[:2] == ["", "\t"]
    assert "→" in lines[3]


def test_the_precision(monkeypatch: pytest.MonkeyPatch, command: Command, model: Path) -> None:
    dtypes = []

    def prepared(translator: Translator, dtype: torch.dtype | None) -> IncrementalTranslator:
        dtypes.append(dtype)
        return prepare(translator, dtype)

    monkeypatch.setattr("tfmr.fast.prepare", prepared)
    for name in ("auto", "fp32", "bf16"):
        command("translate", "--model", model, SENTENCES[0], "--precision", name)
    assert dtypes == [None, torch.float32, torch.bfloat16]


def test_an_empty_standard_input_and_an_empty_file(monkeypatch, rejected, model: Path) -> None:
    monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO(b""), encoding="utf-8"))
    assert "on standard input, got none" in rejected("translate", "--model", model)
    for name, content in (("empty", b""), ("packed.gz", gzip.compress(b""))):
        Path(name).write_bytes(content)
        message = rejected("translate", "--model", model, "--file", name)
        assert f"in {name}, got none" in message


@pytest.mark.parametrize("kind", ["words", "bpe"])
@pytest.mark.parametrize(
    "line",
    ["  line number 7  ", "line  number\t7", "\ufeffline number 7\r", "line\u00a0number\u200b 7",
     "line \x00number 7", "li\u0301ne number 7", " ", "\t\r", "\u200b"],
)  # fmt: skip
def test_every_route_reads_a_line_in_the_same_way(
    monkeypatch: pytest.MonkeyPatch, command: Command, tmp_path: Path, kind: str, line: str
) -> None:
    """Arguments, a file, a gzipped file, standard input and the library."""
    texts = ["line number 7", "líne number 8"]
    tokenizer = Tokenizer.words(texts) if kind == "words" else Tokenizer.train_bpe(texts, 270)
    torch.manual_seed(0)
    vocab = {"source_vocab": tokenizer.vocab_size, "target_vocab": tokenizer.vocab_size}
    sizes = {"d_model": 8, "n_heads": 2, "d_ff": 8, "n_encoder": 1, "n_decoder": 1}
    config = TransformerConfig(**vocab, **sizes, max_length=30)
    saved = Checkpoint(config, tokenizer, named_weights(Transformer(config)))
    checkpoint.save(tmp_path / "own.safetensors", saved)
    given = ("translate", "--model", tmp_path / "own.safetensors")
    [expected] = translate(saved.model(), tokenizer, [canonical(line)], beam=4)
    Path("plain").write_bytes(f"{line}\n".encode())
    Path("packed").write_bytes(gzip.compress(line.encode()))
    if "\x00" not in line:  # no program can be given this argument
        assert command(*given, line)[0] == f"{expected}\n"
    for name in ("plain", "packed"):
        assert command(*given, "--file", name)[0] == f"{expected}\n"
    stdin(monkeypatch, line)
    assert command(*given)[0] == f"{expected}\n"
    assert translate(saved.model(), tokenizer, [line], beam=4) == [expected]


@pytest.mark.parametrize("options", [["--beam", "1"], ["--sample", "--seed", "3", "--alignment"]])
def test_a_stream_prints_the_same_lines(
    monkeypatch: pytest.MonkeyPatch, capsys, command: Command, model: Path, options: list[str]
) -> None:
    sentences = [SENTENCES[0], "", "dragon", *SENTENCES[1:]]
    results = []
    for stream in ([], ["--stream"]):
        with pytest.raises(SystemExit) as stop:
            command("translate", "--model", model, *sentences, *options, *stream)
        results.append((stop.value.code, *capsys.readouterr()))
    assert results[0] == results[1]
    assert results[0][0] == 1

    printed: list[str] = []
    monkeypatch.setattr("builtins.print", lambda text, **_: printed.append(text))
    command("translate", "--model", model, *SENTENCES, *options, "--stream")
    pieces = [text for text in printed if text and not text.startswith("\t")]
    assert len(pieces) > len(SENTENCES)


def test_a_beam_search_is_not_streamed(rejected, model: Path) -> None:
    line = rejected("translate", "--model", model, "a", "--stream")
    assert all(word in line for word in ("--beam 1", "--sample"))


@pytest.mark.parametrize("source", ["stdin", "file", "arguments"])
def test_a_byte_that_is_not_utf_8_is_an_error_of_its_line(
    monkeypatch: pytest.MonkeyPatch, capsys, command: Command, model: Path, source: str
) -> None:
    owl, boxes, _ = SENTENCES
    given = ("translate", "--model", model, "--beam", 1)
    owls, box = (command(*given, sentence)[0] for sentence in (owl, boxes))
    content = "\n".join([owl, "M\udce4nner", boxes]).encode("utf-8", "surrogateescape")
    arguments: tuple[object, ...] = ()
    if source == "stdin":
        monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO(content), encoding="utf-8"))
    elif source == "file":
        Path("lines").write_bytes(content)
        arguments = ("--file", "lines")
    else:
        arguments = tuple(map(os.fsdecode, content.split(b"\n")))
    with pytest.raises(SystemExit) as stop:
        command(*given, *arguments)
    assert stop.value.code == 1
    out, err = capsys.readouterr()
    assert out == f"{owls}\n{box}"
    [line] = err.splitlines()
    assert all(word in line for word in ("sentence 2", "0xE4", "UTF-8"))


def test_a_line_of_output_for_every_line_of_input(command: Command, tmp_path: Path) -> None:
    """Also for a model that generates line breaks and control characters."""
    tokenizer = Tokenizer.train_bpe(["a b c"], 260)
    torch.manual_seed(1)
    sizes = {"d_model": 8, "n_heads": 2, "d_ff": 8, "n_encoder": 1, "n_decoder": 1}
    config = TransformerConfig(source_vocab=260, target_vocab=260, **sizes, max_length=40)
    saved = Checkpoint(config, tokenizer, named_weights(Transformer(config)))
    checkpoint.save(tmp_path / "own.safetensors", saved)
    given = ("translate", "--model", tmp_path / "own.safetensors", "--sample", "--temperature", 9)
    Path("lines").write_text("a b c\n" * 60)
    out = command(*given, "--file", "lines", "--alignment")[0]
    assert len(out.splitlines()) == 120
    assert out.count("\n") == 120
    assert all(line.startswith("\t") for line in out.splitlines()[1::2])
    assert not any(ord(c) < 32 for line in out.split("\n") for c in line.removeprefix("\t"))


def test_a_pipe_and_a_terminal_are_translated_line_by_line(model: Path) -> None:
    """Each translation is printed before the next line is sent."""
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
            translations = []
            for sentence in ["dragon", *SENTENCES]:
                write(sentence.encode() + b"\n")
                if process.stdin:
                    process.stdin.flush()
                translations.append(process.stdout.readline().decode())
            assert translations[0] == "\n"
            assert len(set(translations)) > 2
            if process.stdin:
                process.stdin.close()
            else:
                write(b"\x04")
            assert process.wait(timeout=600) == 1
            *greeting, message = process.stderr.read().decode().splitlines()
            assert message.startswith("tfmr: sentence 1 ")
            assert greeting == (
                ["Enter one sentence per line; Ctrl-D ends."] if given == terminal else []
            )
    os.close(terminal)
    os.close(master)


@pytest.mark.parametrize("name", ["translate", "evaluate", "export"])
def test_the_help_names_the_models_of_the_package(name: str, command, capsys) -> None:
    with pytest.raises(SystemExit):
        command(name, "--help")
    text = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert f"a model of the package: {', '.join(model_names()[:-1])} or {model_names()[-1]}" in text


def test_n_best_translations_with_scores(command: Command, model: Path) -> None:
    given = ("translate", "--model", model, "--beam", 3, *SENTENCES[:2])
    out, _ = command(*given, "--n-best", 2, "--scores")
    rows = [line.split("\t") for line in out.splitlines()]
    translator, tokenizer = load_translator(model)
    expected = []
    for number, sentence in enumerate(SENTENCES[:2], start=1):
        source = torch.tensor([tokenizer.encode(sentence)])
        for best in beam_search(translator, source, 3, n_best=2)[0]:
            text = tokenizer.detokenise(canonical(tokenizer.decode(best.ids)))
            expected.append([str(number), f"{best.score:.4f}", text])
    assert rows == expected
    assert len(rows) == 4
    plain, _ = command(*given)
    scored, _ = command(*given, "--scores")
    assert [line.split("\t")[1] for line in scored.splitlines()] == plain.splitlines()
    numbered, _ = command(*given, "--n-best", 1)
    assert numbered.splitlines() == [f"{n}\t{t}" for n, t in enumerate(plain.splitlines(), start=1)]


def test_a_sentence_without_a_translation_keeps_its_number(
    model: Path, monkeypatch: pytest.MonkeyPatch, command: Command
) -> None:
    out, _ = command("translate", "--model", model, "--n-best", 2, "--scores", "", SENTENCES[0])
    lines = out.splitlines()
    assert lines[0] == "1\t\t"
    assert [line.split("\t")[0] for line in lines[1:]] == ["2", "2"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--n-best", 5), "n_best must be between 1 and beam=4: got n_best=5"),
        (("--n-best", 0), "expected --n-best of at least 1 translation, got 0"),
        (("--n-best", 2, "--sample"), "with a search, got --sample"),
        (("--scores", "--stream", "--beam", 1), "with a search, got --stream"),
    ],
)
def test_n_best_needs_a_search(rejected, model: Path, options: tuple, message: str) -> None:
    assert message in rejected("translate", "--model", model, *options, "--", SENTENCES[0])
