"""How a run reports to people: its progress, the README of its directory, TensorBoard logs."""

import math
import os
import re
import shlex
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from tqdm import tqdm

from tfmr.data.report import DataReport
from tfmr.train.config import Budget
from tfmr.train.evaluation import ValidationResult
from tfmr.train.run_dir import FILES
from tfmr.train.trainer import StepRecord

LOG_SECONDS = 20.0
"""Time between two lines about the progress, where no bar is shown."""
SHOWN_SAMPLES = 5
"""Number of translations in the README."""


def readme_text(
    folder: str | os.PathLike[str],
    metadata: Mapping[str, Any],
    scores: Sequence[Mapping[str, Any]],
    samples: str,
    progress: str,
    data: DataReport | None = None,
) -> str:
    """The README of a run directory, in Markdown.

    Args:
        folder: the run directory.
        metadata: see :meth:`tfmr.train.run.Run.metadata`.
        scores: one row per evaluation.
        samples: the text of samples.tsv, empty before the first evaluation.
        progress: the training so far, such as "400 steps in 1.0 minutes".
        data: the report on the user's own files.
    """
    folder = Path(folder)
    recipe = metadata["recipe"]
    sections = [
        f"# {escape(metadata['corpus'])} {escape(metadata['direction'])}",
        f"A {recipe['model']['kind']} with {metadata['parameters']:,} parameters and a vocabulary "
        f"of {metadata['vocab_size']:,} tokens, trained on "
        f"{metadata['sentence_pairs']['train']:,} sentence pairs{_dropped(metadata)}: {progress}. "
        f"Random seed {recipe['train']['seed']}; all settings are in [recipe.toml](recipe.toml).",
        _base(metadata["base"]) if metadata["base"] else "",
        "The tokenizer was given, not trained on these sentences."
        if metadata["given_tokenizer"]
        else "",
        _code_block(metadata["command"]) if metadata["command"] else "",
        "## Scores",
        _score_table(scores, metadata["sentence_pairs"]),
        _sample_section(samples),
        _data_section(data) if data else "",
        "![The lengths of the sentences](lengths.png)" if (folder / "lengths.png").exists() else "",
        "## Use",
        _code_block(f'python -m tfmr translate --model {shlex.quote(str(folder))} "a sentence"'),
        "Resume training, after an interruption or with a larger budget:",
        _code_block(
            f"{_launcher(metadata)} -m tfmr train --resume --out {shlex.quote(str(folder))}"
        ),
        "## Files",
        "\n".join(
            f"- `{name}`: {content}" for name, content in FILES.items() if (folder / name).exists()
        ),
        "![The training curve](curve.png)" if (folder / "curve.png").exists() else "",
        "## Environment",
        _environment(metadata),
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


def _dropped(metadata: Mapping[str, Any]) -> str:
    """A remark on the training pairs that were too long; empty if there were none."""
    if not metadata["dropped_pairs"]:
        return ""
    max_length = metadata["recipe"]["model"]["max_length"]
    return (
        f", of which {metadata['dropped_pairs']:,} were not used because a sentence has more than "
        f"{max_length} tokens (`model.max_length`)"
    )


def _base(base: Mapping[str, Any]) -> str:
    """From which model the run started."""
    trained = " ".join(str(base[name]) for name in ("corpus", "direction") if base[name])
    return (
        f"The run started from the weights of {escape(base['model'])} "
        f"({escape(trained or 'corpus unknown')}; fingerprint {base['weights_fingerprint']}) and "
        "kept its tokenizer and architecture; the optimiser and the learning-rate schedule started "
        "anew."
    )


def _launcher(metadata: Mapping[str, Any]) -> str:
    """The program that starts the same number of processes."""
    processes = metadata["processes"]
    return "python" if processes == 1 else f"torchrun --nproc-per-node {processes}"


def _data_section(data: DataReport) -> str:
    """The sets, and what was found in the user's own files."""
    remarks = "\n".join(f"- {escape(remark)}" for remark in data.remarks())
    return f"## Data\n\n{data.table()}\n\n{remarks}"


def _code_block(command: str) -> str:
    """A code block whose fence is longer than any run of backticks in the command."""
    longest = max(map(len, re.findall("`+", command)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}bash\n{command}\n{fence}"


def _score_table(scores: Sequence[Mapping[str, Any]], sentences: Mapping[str, int]) -> str:
    """One row per evaluation, greedy decoding and beam search side by side.

    ``sentences`` is the size of each set.
    """
    if not scores:
        return "Not evaluated yet."
    left_out = ("signature", "epoch", "tokens", "valid_sentences", "test_sentences")
    names = [name for name in scores[-1] if name not in left_out]
    header = [name.replace("_", " ").replace("bleu", "BLEU") for name in names]
    rows = [["" if row.get(n) is None else f"{row[n]:g}" for n in names] for row in scores]
    table = "\n".join(
        "| " + " | ".join(row) + " |" for row in [header, ["---:"] * len(header), *rows]
    )
    signature = scores[-1]["signature"]
    return (
        f"{table}\n\nThe validation set has {sentences['valid']:,} sentences, the test set "
        f"{sentences['test']:,}. BLEU is computed by sacreBLEU "
        f"(`{signature}`) on greedy translations, unless a beam size is given. “Exact” is the "
        "fraction of greedy translations that are identical to the reference."
    )


def _sample_section(samples: str) -> str:
    """Some rows of samples.tsv, at equal intervals."""
    rows = [line.split("\t") for line in samples.splitlines()[1:]]
    if not rows:
        return ""
    parts = ["## Translations of test sentences"]
    for source, reference, hypothesis, _ in rows[:: max(1, len(rows) // SHOWN_SAMPLES)][
        :SHOWN_SAMPLES
    ]:
        named = {"source": source, "reference": reference, "hypothesis": hypothesis}
        parts.append("\n>\n".join(f"> {name}: {escape(text)}" for name, text in named.items()))
    return "\n\n".join(parts)


def escape(text: str) -> str:
    r"""Escape what Markdown would not show as it is: markup, HTML, formulas, names of emoji.

    >>> print(escape("<unk> &quot; *2* :on:"))
    \<unk> \&quot; \*2\* \:on:
    """
    return re.sub(r"[\\`*_\[\]<&~$|#]|:(?=[\w+-]+:)", r"\\\g<0>", text)


def _environment(metadata: Mapping[str, Any]) -> str:
    hardware = metadata["hardware"]
    versions = ", ".join(f"{name} {version}" for name, version in metadata["versions"].items())
    commit = f", commit {metadata['commit']}" if metadata["commit"] else ""
    return (
        f"{escape(hardware['processor'])}, {hardware['threads']} threads, "
        f"{escape(hardware['device'])}; {versions}"
        f"{commit}. Fingerprints: corpus {metadata['corpus_fingerprint']}, vocabulary "
        f"{metadata['vocabulary_fingerprint']}."
    )


def speed(steps: int, tokens: int, seconds: float) -> str:
    """Steps and target tokens per second.

    >>> speed(30, 60_000, 20.0)
    '1.5 steps and 3,000 target tokens per second'
    """
    return f"{steps / seconds:.3g} steps and {tokens / seconds:,.0f} target tokens per second"


class ProgressReport:
    """Shows on standard error how a run proceeds: a bar on a terminal, otherwise lines.

    Args:
        budget: the limits of the run.
        step: the step from which the run starts or resumes.
        seconds: its training time so far.
        quiet: show nothing.
    """

    def __init__(self, budget: Budget, step: int, seconds: float, *, quiet: bool = False) -> None:
        self._by_steps = bool(budget.steps)
        self._prints = not quiet and not sys.stderr.isatty()
        self._bar = tqdm(
            total=max(budget.steps) if self._by_steps else round(60 * max(budget.minutes)),
            initial=step if self._by_steps else round(seconds),
            unit=" steps" if self._by_steps else "s",
            disable=quiet or self._prints,
            leave=False,
        )
        self._printed_at = -math.inf
        self._shown = step, seconds
        self._tokens = 0
        self._last: StepRecord | None = None

    def log_step(self, record: StepRecord) -> None:
        """Show a training step, or print a line if the last one was :data:`LOG_SECONDS` ago."""
        done = record.step if self._by_steps else round(record.seconds)
        self._bar.update(done - self._bar.n)
        self._bar.set_postfix(
            step=record.step, loss=f"{record.loss:.2f}", grad_norm=f"{record.grad_norm:.1f}"
        )
        self._tokens += record.tokens
        self._last = record
        if time.monotonic() - self._printed_at >= LOG_SECONDS:
            self._print_line()

    def log_validation(self, result: ValidationResult) -> None:
        """Show a validation result."""
        self._print_line()
        bleu = "" if result.bleu is None else f", BLEU {result.bleu:.1f}"
        if self._prints or not self._bar.disable:
            self._bar.write(
                f"validation after step {result.step:,}: loss {result.loss:.3f}{bleu}",
                file=sys.stderr,
            )

    def _print_line(self) -> None:
        """Print the last step, and the speed since the previous line."""
        record, self._last = self._last, None
        if not self._prints or record is None:
            return
        step, seconds = self._shown
        passed = record.seconds - seconds
        rate = f", {speed(record.step - step, self._tokens, passed)}" if passed > 0 else ""
        print(
            f"step {record.step:,}: loss {record.loss:.3f}{rate}, {record.seconds:.0f} s of "
            "training",
            file=sys.stderr,
            flush=True,
        )
        self._shown, self._tokens = (record.step, record.seconds), 0
        self._printed_at = time.monotonic()

    def __enter__(self) -> "ProgressReport":
        return self

    def __exit__(self, *_: object) -> None:
        self._print_line()
        self._bar.close()


class TensorBoardLogger:
    """Logs training steps and validation results for TensorBoard, if it is installed.

    Args:
        folder: where the event files are written.
        step: the step from which the run starts or resumes. TensorBoard discards events that an
            earlier process logged for later steps.
        enabled: whether to log at all.
    """

    def __init__(
        self, folder: str | os.PathLike[str], step: int = 0, *, enabled: bool = True
    ) -> None:
        self.writer: Any = None
        if not enabled:
            return
        try:
            from torch.utils.tensorboard import SummaryWriter

            self.writer = SummaryWriter(str(folder), purge_step=step + 1)
        except ModuleNotFoundError:
            return
        except Exception as error:  # a broken installation may raise anything
            self._disable(error)

    def log_step(self, record: StepRecord) -> None:
        """Log a training step."""
        for name in ("loss", "grad_norm", "weight_norm", "learning_rate"):
            self._log(f"train/{name}", getattr(record, name), record.step)

    def log_validation(self, result: ValidationResult) -> None:
        """Log a validation result."""
        self._log("valid/loss", result.loss, result.step)
        if result.bleu is not None:
            self._log("valid/bleu", result.bleu, result.step)

    def _log(self, name: str, value: float, step: int) -> None:
        if self.writer is None:
            return
        try:
            self.writer.add_scalar(name, value, step)
        except Exception as error:  # it writes in a thread that a full disk ends
            self._disable(error)

    def _disable(self, error: Exception) -> None:
        """Continue the training without logs, which are optional, and report it in one line."""
        self.writer = None
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        print(f"tfmr: no logs for TensorBoard, which failed ({reason})", file=sys.stderr)

    def __enter__(self) -> "TensorBoardLogger":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.writer is None:
            return
        try:
            self.writer.close()
        except Exception as reason:
            self._disable(reason)
