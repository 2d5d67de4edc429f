"""``python -m benchmarks.translator_page``: quality, size and speed of the translator in the page.

The test set is translated by Python with the weights of the checkpoint, by Python with the rounded
weights of the page, and by the page itself in a headless browser. The page is also timed: reading
the model, the first token, and tokens per second. It computes on one thread. The record also has
the probability that the translations of all but 5 % of the sentences reach: the page warns of
translations that are much less probable.
"""

import contextlib
import gzip
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import torch
from jaxtyping import Float
from playwright.sync_api import Page, sync_playwright
from torch import Tensor
from torch.nn.functional import cross_entropy

from benchmarks import record
from benchmarks.record import Record, Row
from benchmarks.tables import NOTHING, Claims, markdown, only
from tfmr import checkpoint
from tfmr.data import corpora
from tfmr.data.corpus import SentencePair
from tfmr.data.tokenizer import Tokenizer
from tfmr.decode import translate
from tfmr.fast import prepare
from tfmr.metrics import bleu, exact_match
from tfmr.special_tokens import BOS, EOS
from tfmr.translator import Translator
from tfmr.widgets import linker
from tfmr.widgets.translator import MODELS, ShippedModel, write_models
from tools.browser import FLAGS, browser
from tools.site.server import server

BEAMS = (1, 4)
LOAD = """async (name) => {
    const { parseModel, readModel } = window.tfmrModules["weights.js"];
    const text = await (await fetch(`models/${name}.js`)).text();
    const start = performance.now();
    window.model = readModel(parseModel(text));
    return (performance.now() - start) / 1000;
}"""
"""Load a model; return the seconds that reading its file took."""
TRANSLATE = """([text, beam]) => {
    const { encode, decode } = window.tfmrModules["bpe.js"];
    const { beamSearch, greedySearch } = window.tfmrModules["search.js"];
    const { model, tokenizer } = window.model;
    const start = performance.now();
    const source = encode(tokenizer, text);
    const search = beam > 1 ? beamSearch(model, source, beam) : greedySearch(model, source);
    let first = null;
    for (;;) {
        const { value, done } = search.next();
        if (value?.length > 0) first ??= performance.now() - start;
        if (!done) continue;
        const ids = beam > 1 ? value[0].ids : value;
        const seconds = (performance.now() - start) / 1000;
        return { ids, text: decode(tokenizer, ids), seconds, first: (first ?? 0) / 1000 };
    }
}"""
"""Translate a sentence; return ids, text, and the seconds until the first token and the last."""


@dataclass(frozen=True)
class PageTranslator:
    """Measure BLEU, size and speed of the models in the page, and record them."""

    sentences: int | None = None
    """Translate this many sentences of each test set only, for a quick test."""
    threads: int = 1
    """CPU threads of Python."""
    out: Path = record.FOLDER / "translator-page.json"
    """The record."""

    def __call__(self) -> None:
        """Measure and record."""
        metadata = record.collect_metadata()
        torch.set_num_threads(self.threads)
        rows: list[dict[str, Any]] = []
        with open_page() as (page, version):
            for model in MODELS:
                corpus = model.name.rpartition("-")[0].rpartition("-")[0]
                pairs = corpora.load(corpus, model.direction).test[: self.sentences]
                for row in measure(model, list(pairs), page):
                    print(row, file=sys.stderr, flush=True)
                    rows.append(row)
        settings = {
            **{"split": "test", "beams": BEAMS, "threads": self.threads},
            "browser": f"Chromium {version}, headless",
        }
        record.write(self.out, "translator-page", rows, settings=settings, metadata=metadata)


@contextlib.contextmanager
def open_page() -> Iterator[tuple[Page, str]]:
    """A page with the code of the translator and a server of the models; the browser's version."""
    with tempfile.TemporaryDirectory() as temporary, sync_playwright() as playwright:
        folder = Path(temporary)
        linker.write_scripts(folder)
        write_models(folder / "models")
        scripts = '<script src="shared.js"></script><script src="translator.js"></script>'
        (folder / "index.html").write_text(f"<!DOCTYPE html><title>Benchmark</title>{scripts}")
        running = server(folder, 0)
        threading.Thread(target=running.serve_forever, daemon=True).start()
        chromium = playwright.chromium.launch(executable_path=browser(), args=list(FLAGS))
        try:
            page = chromium.new_page()
            page.goto(f"http://127.0.0.1:{running.server_port}/index.html")
            yield page, chromium.version
        finally:
            chromium.close()
            running.shutdown()
            running.server_close()


def measure(
    shipped: ShippedModel, pairs: Sequence[SentencePair], page: Page
) -> Iterator[dict[str, Any]]:
    """A row for each beam and each way of computing."""
    saved = checkpoint.load(record.FOLDER / shipped.name / "model.safetensors")
    text = shipped.text()
    size = {"bytes": len(text.encode()), "bytes_gzip": len(gzip.compress(text.encode(), mtime=0))}
    tokenizer, exact = saved.tokenizer, saved.model()
    rounded = shipped.load().model()
    sources, references = (list(side) for side in zip(*pairs, strict=True))
    load = page.evaluate(LOAD, shipped.name)
    for beam in BEAMS:
        common = {"model": shipped.name, "beam": beam, "sentences": len(pairs)}
        outputs = python_outputs(exact, tokenizer, sources, beam)
        before = python_outputs(rounded, tokenizer, sources, beam)
        yield common | {"system": "Python"} | scores(outputs, references)
        same = sum(a == b for a, b in zip(outputs, before, strict=True))
        yield common | {"system": "Python, rounded"} | scores(before, references) | {"same": same}
        found = [page.evaluate(TRANSLATE, [source, beam]) for source in sources]
        outputs = [each["text"] for each in found]
        same = sum(a == b for a, b in zip(outputs, before, strict=True))
        tokens = sum(len(each["ids"]) + 1 for each in found)
        timing = {
            "same": same,
            "seconds_to_read": round(load, 3),
            "seconds_to_first_token": round(median(each["first"] for each in found), 4),
            "tokens_per_second": round(tokens / sum(each["seconds"] for each in found), 1),
        }
        if beam == 1:
            ids = [each["ids"] for each in found]
            reached = probabilities(rounded, map(tokenizer.encode, sources), ids)
            timing["probability_of_95_percent"] = round(float(reached.quantile(0.05)), 4)
        yield common | {"system": "page"} | scores(outputs, references) | timing | size


def python_outputs(
    model: Translator, tokenizer: Tokenizer, sources: list[str], beam: int
) -> list[str]:
    """The translations of Python."""
    return translate(prepare(model), tokenizer, sources, beam=beam, detokenise=False)


@torch.inference_mode()
def probabilities(
    model: Translator, sources: Iterable[list[int]], outputs: Iterable[list[int]]
) -> Float[Tensor, "sentences"]:
    """The geometric means of the probabilities of the generated tokens, one per translation."""
    found = []
    for source, ids in zip(sources, outputs, strict=True):
        output = [*ids, EOS][: model.config.max_length]
        logits = model(torch.tensor([source]), torch.tensor([[BOS, *output[:-1]]]))
        found.append(torch.exp(-cross_entropy(logits[0], torch.tensor(output))))
    return torch.stack(found)


def scores(outputs: list[str], references: list[str]) -> dict[str, Any]:
    """BLEU and exact matches."""
    result = bleu(outputs, references)
    exact = round(exact_match(outputs, references), 4)
    return {"test_bleu": result.score, "test_exact": exact, "signature": result.signature}


def table(rows: list[Row], settings: Row) -> list[str]:
    """BLEU of the models in Python and in the page; size and speed of the page."""
    quality, speed, doubt = [], [], []
    for row in rows:
        name = f"{row['model']}, {'greedy' if row['beam'] == 1 else 'beam ' + str(row['beam'])}"
        same = f"{row['same']:,}" if "same" in row else NOTHING
        scored = (f"{row['test_bleu']:.2f}", f"{row['test_exact']:.3f}")
        quality.append([name, row["system"], f"{row['sentences']:,}", *scored, same])
        if row["system"] == "page":
            sizes = (f"{row[size] / 1e6:.2f}" for size in ("bytes", "bytes_gzip"))
            times = (f"{row[f'seconds_to_{what}']:.2g}" for what in ("read", "first_token"))
            speed.append([name, *sizes, *times, f"{row['tokens_per_second']:,.0f}"])
        if "probability_of_95_percent" in row:
            doubt.append([row["model"], f"{row['probability_of_95_percent']:.3f}"])
    header = ["", "size, MB", "compressed, MB", "reading, s", "first token, s", "tokens/s"]
    return [
        "Sentences of the test sets, in their original order, translated by Python with "
        "the weights of the checkpoint, by Python with the rounded weights of the translator page, "
        "and by the "
        f"page in {settings['browser']}. *Equal* is the number of identical translations: it "
        "compares the rows *Python, rounded* with *Python*, and the rows *page* with *Python, "
        "rounded*.",
        markdown(["", "system", "sentences", "BLEU", "exact matches", "equal"], quality),
        "**Size of the model files, and speed of the page**, which computes on one thread: the "
        "time to read the model from its downloaded file, the median time until the first token, "
        "tokenisation and encoder included, and the tokens per second of the whole translation.",
        markdown(header, speed),
        "The geometric mean of the probabilities of the generated tokens that the greedy "
        "translations of 95 % of the sentences reach:",
        markdown(["", "probability"], doubt),
    ]


def claims(rows: list[Row], settings: Row, records: dict[str, Record]) -> Claims:
    """The warning of the page states what more than 95 % of the test sentences reach."""
    for model in MODELS:
        row = only(rows, model=model.name, system="page", beam=1)
        holds = row["probability_of_95_percent"] > model.min_probability
        yield f"{model.name}: 95 % reach more than {model.min_probability}", holds


if __name__ == "__main__":
    record.run(PageTranslator)
