"""Progress, the README of a run directory, and TensorBoard logs."""

import html
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest
from markdown_it import MarkdownIt

from tfmr.train.config import Budget, Recipe
from tfmr.train.evaluation import ValidationResult
from tfmr.train.report import ProgressReport, TensorBoardLogger, readme_text
from tfmr.train.run_dir import FILES
from tfmr.train.trainer import StepRecord

METADATA = {
    "given_tokenizer": False,
    "corpus": "pocket",
    "direction": "en-fr",
    "corpus_fingerprint": "c0ffee",
    "sentence_pairs": {"train": 29000, "valid": 4, "test": 5},
    "dropped_pairs": 0,
    "base": None,
    "recipe": Recipe().with_overrides({"train.seed": 7}).to_dict(),
    "parameters": 2029056,
    "vocab_size": 5000,
    "vocabulary_fingerprint": "beef",
    "command": "python -m tfmr train --steps 8",
    "processes": 1,
    "versions": {"torch": "2.6"},
    "hardware": {"processor": "EPYC", "threads": 2, "device": "cpu"},
    "commit": "abc",
}
SCORES = [
    {"minutes": 5.0, "test_bleu": 36.97, "signature": "nrefs:1", "tokens": 9},
    {"minutes": 10.0, "test_bleu": 38.74, "test_bleu_beam4": 39.43, "signature": "nrefs:1"},
]
SAMPLES = "source\treference\thypothesis\tchrF\n" + "".join(
    f"s{i}\tr{i}\th{i}\t9.0\n" for i in range(20)
)
RECORD = StepRecord(4, 5.25, 0.5, 12.5, 1e-3, 999, 0.125)


def test_the_readme_describes_the_run(tmp_path: Path) -> None:
    for name in ("README.md", "curve.png"):
        (tmp_path / name).touch()
    text = readme_text(str(tmp_path), METADATA, SCORES, SAMPLES, "8 steps in 1.0 minutes")
    assert text.startswith("# pocket en-fr\n")
    for part in (
        "A transformer with 2,029,056 parameters and a vocabulary of 5,000 tokens, trained on "
        "29,000 sentence pairs: 8 steps in 1.0 minutes. Random seed 7;",
        "```bash\npython -m tfmr train --steps 8\n```",
        "| minutes | test BLEU | test BLEU beam4 |\n| ---: | ---: | ---: |\n"
        "| 5 | 36.97 |  |\n| 10 | 38.74 | 39.43 |\n",
        "`nrefs:1`",
        "The validation set has 4 sentences, the test set 5.",
        "> source: s4\n>\n> reference: r4\n>\n> hypothesis: h4\n",
        f'python -m tfmr translate --model {tmp_path} "',
        f"python -m tfmr train --resume --out {tmp_path}",
        "![The training curve](curve.png)",
        "EPYC, 2 threads, cpu; torch 2.6, commit abc. Fingerprints: corpus c0ffee, vocabulary beef",
    ):
        assert part in text
    assert text.count("> hypothesis: ") == 5
    listed = [line for line in text.splitlines() if line.startswith("- `")]
    assert listed == [f"- `{name}`: {FILES[name]}" for name in ("README.md", "curve.png")]


def test_the_readme_states_how_many_pairs_were_not_used(tmp_path: Path) -> None:
    text = readme_text(tmp_path, METADATA | {"dropped_pairs": 1234}, [], "", "")
    assert re.search(r"29,000 sentence pairs, of which 1,234 were not used .*256 tokens", text)
    assert "not used" not in readme_text(tmp_path, METADATA, [], "", "")


def test_the_readme_before_the_first_evaluation(tmp_path: Path) -> None:
    metadata = METADATA | {"command": None, "commit": None}
    text = readme_text(tmp_path, metadata, [], "", "0 steps in 0.0 minutes")
    assert "Not evaluated yet." in text
    assert "None" not in text
    assert "## Translations" not in text


def test_the_command_to_resume_names_folder_and_processes(tmp_path: Path) -> None:
    metadata = METADATA | {"processes": 2}
    folder = tmp_path / "a run"
    text = readme_text(folder, metadata, [], "", "")
    assert f"torchrun --nproc-per-node 2 -m tfmr train --resume --out '{folder}'" in text
    assert f"translate --model '{folder}' " in text


@pytest.fixture
def tensorboard(monkeypatch: pytest.MonkeyPatch) -> list[tuple]:
    """What a logger calls. An entry ``("fail", name)`` lets a call fail, as in a broken package."""
    events: list[tuple] = []

    def call(name: str, *arguments: object) -> None:
        if ("fail", name) in events:
            raise TypeError("descriptors cannot\nbe created")
        events.append((name, *arguments))

    class SummaryWriter:
        def __init__(self, folder: str, purge_step: int) -> None:
            call("open", folder, purge_step)

        def add_scalar(self, name: str, value: float, step: int) -> None:
            call("add", name, value, step)

        def close(self) -> None:
            call("close")

    class Module(ModuleType):
        def __getattr__(self, name: str) -> object:
            if name != "SummaryWriter":
                raise AttributeError(name)
            call("import")
            return SummaryWriter

    module = Module("torch.utils.tensorboard")
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", module)
    return events


def test_tensorboard_receives_steps_and_validations(tensorboard: list[tuple]) -> None:
    with TensorBoardLogger("logs", 3) as logger:
        logger.log_step(RECORD)
        logger.log_validation(ValidationResult(4, 1.0, 2.0, 30.0))
        logger.log_validation(ValidationResult(5, 1.0, 2.5, None))
    assert tensorboard == [
        *(("import",), ("open", "logs", 4)),
        *(("add", "train/loss", 5.25, 4), ("add", "train/grad_norm", 0.5, 4)),
        *(("add", "train/weight_norm", 12.5, 4), ("add", "train/learning_rate", 1e-3, 4)),
        *(("add", "valid/loss", 2.0, 4), ("add", "valid/bleu", 30.0, 4)),
        *(("add", "valid/loss", 2.5, 5), ("close",)),
    ]
    tensorboard.clear()
    with TensorBoardLogger("logs", enabled=False) as logger:
        logger.log_step(RECORD)
    assert tensorboard == []


@pytest.mark.parametrize("place", ["import", "open", "add", "close"])
def test_training_continues_without_a_broken_tensorboard(
    tensorboard: list[tuple], capsys: pytest.CaptureFixture[str], place: str
) -> None:
    tensorboard.append(("fail", place))
    with TensorBoardLogger("logs", 3) as logger:
        logger.log_step(RECORD)
        logger.log_step(RECORD)
    [line] = capsys.readouterr().err.splitlines()
    assert "TensorBoard" in line
    assert "TypeError: descriptors cannot be created" in line


def rendered(markdown: str) -> str:
    """The text that a reader sees, by the renderer of the book."""
    found = MarkdownIt("commonmark").enable(["table", "strikethrough"]).render(markdown)
    return html.unescape(re.sub("<[^>]*>", "", found))


@pytest.mark.parametrize(
    "text",
    [
        *("<unk> &quot;", "a &lt; b & c", "<b>bold</b> <!-- gone -->", "*a* **b** _c_ __d__ ~~e~~"),
        *("`code` ``", "[link](x) ![image](y) [z]: w", "a \\* b\\", "$x_1$ | $$y$$", "# no head"),
        *("1. no list", "- no list", "+ no", "> no quote", "===", "---", ":smile: 12:30:45"),
    ],
)
def test_the_readme_shows_sentences_as_they_are(tmp_path: Path, text: str) -> None:
    samples = f"source\treference\thypothesis\tchrF\n{text}\t{text}\t{text}\t9.0\n"
    markdown = readme_text(tmp_path, METADATA, SCORES, samples, "8 steps")
    seen = rendered(markdown).splitlines()
    for name in ("source", "reference", "hypothesis"):
        assert f"{name}: {text}" in seen
    assert not re.search(r"(?<!\\)(\$|:smile:)", markdown)  # formulas and emoji on GitHub


def test_the_readme_shows_names_and_commands_as_they_are(tmp_path: Path) -> None:
    command = "python -m tfmr train --out 'a```b'"
    metadata = METADATA | {"corpus": "your <files>", "command": command}
    text = readme_text(tmp_path, metadata, SCORES, "", "8 steps")
    assert "your <files> en-fr" in rendered(text)
    assert f"````bash\n{command}\n````" in text


def test_without_tensorboard_nothing_is_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with TensorBoardLogger(tmp_path / "logs", 0) as logger:
        logger.log_step(RECORD)
        logger.log_validation(ValidationResult(4, 1.0, 2.0, 30.0))
    assert not (tmp_path / "logs").exists()


def records(count: int) -> list[StepRecord]:
    """Steps of half a second with 100 target tokens each."""
    return [StepRecord(n, 6.0 - n, 1.0, 1.0, 1e-3, 100, n / 2) for n in range(1, count + 1)]


@pytest.mark.parametrize("budget", [Budget(steps=(9,)), Budget(minutes=(1.0,))])
def test_progress_without_a_terminal_is_lines(monkeypatch, capsys, budget: Budget) -> None:
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    with ProgressReport(budget, 0, 0.0) as progress:
        for record in records(5):
            now[0] += 15.0
            progress.log_step(record)
            if record.step == 4:
                progress.log_validation(ValidationResult(4, 2.0, 1.5, 20.25))
    rate = "2 steps and 200 target tokens per second"
    assert capsys.readouterr().err.splitlines() == [
        f"step 1: loss 5.000, {rate}, 0 s of training",
        f"step 3: loss 3.000, {rate}, 2 s of training",
        f"step 4: loss 2.000, {rate}, 2 s of training",
        "validation after step 4: loss 1.500, BLEU 20.2",
        f"step 5: loss 1.000, {rate}, 2 s of training",
    ]


def test_progress_on_a_terminal_is_a_bar_and_quiet_progress_is_nothing(monkeypatch, capsys) -> None:
    with ProgressReport(Budget(steps=(9,)), 0, 0.0, quiet=True) as progress:
        progress.log_step(records(1)[0])
        progress.log_validation(ValidationResult(1, 2.0, 1.5, None))
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with ProgressReport(Budget(steps=(9,)), 0, 0.0) as progress:
        progress.log_step(records(1)[0])
        progress.log_validation(ValidationResult(1, 2.0, 1.5, None))
    text = capsys.readouterr().err
    assert "1/9" in text
    assert "\n" in text
    assert "validation after step 1: loss 1.500" in text
    assert "steps and" not in text
