"""Memory and communication of several processes: what is counted, and the record."""

from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from benchmarks import parallel
from benchmarks.record import read
from tfmr.errors import TfmrError
from tfmr.records import record_path
from tfmr.train.distributed import World

KEY = {"what", "method", "processes", "batches", "operation"}


@pytest.fixture
def process_group(tmp_path: Path):
    """A process group of this process alone."""
    dist.init_process_group(
        "gloo", store=dist.FileStore(str(tmp_path / "store"), 1), rank=0, world_size=1
    )
    yield
    dist.destroy_process_group()


# PyTorch renames two of these functions; 2.6 knows only these names.
@pytest.mark.filterwarnings("ignore:.*is deprecated:FutureWarning")
def test_collective_operations_are_counted_with_the_size_of_the_whole_tensor(
    process_group: None,
) -> None:
    shard, whole = torch.ones(6), torch.ones(6)
    with parallel.Collectives() as counted:
        dist.all_reduce(torch.ones(5))
        dist.all_gather_into_tensor(whole, shard)
        dist.reduce_scatter_tensor(shard, whole)
        torch.ones(9) + 1
    assert counted.found == [("all-reduce", 20), ("all-gather", 24), ("reduce-scatter", 24)]


def test_an_unknown_collective_operation_raises(process_group: None) -> None:
    with parallel.Collectives(), pytest.raises(TfmrError, match="got broadcast_"):
        dist.broadcast(torch.ones(2), src=0)


def test_written_bytes_are_counted(tmp_path: Path) -> None:
    before = parallel.bytes_written()
    (tmp_path / "file").write_bytes(bytes(1234))
    assert parallel.bytes_written() - before == 1234


@pytest.mark.usefixtures("small_corpus")
def test_a_single_process_stores_four_copies_of_the_weights() -> None:
    trainer = parallel.make_trainer(World(), 2, fsdp=False, seed=0)
    trainer.step(*next(trainer.upcoming_batches())[0])
    count = trainer.model.count_parameters()
    assert parallel.stored(trainer) == {
        "weights": 4 * count,
        "gradients": 4 * count,
        "moments": 8 * count,
    }
    assert trainer.model.config.source_vocab % parallel.VOCAB_MULTIPLE == 0
    found = parallel.sizes(trainer.model)
    embedding = trainer.model.config.source_vocab * trainer.model.config.d_model
    assert found["parameters"] == count
    assert count - found["block_parameters"] >= embedding
    assert found["tensors"] == len(list(trainer.model.parameters()))


def test_the_record_of_two_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both methods store and send what the recorded runs do, with the same first losses."""
    runs = (("DDP", 2, 1), ("FSDP", 2, 1))
    monkeypatch.setattr(parallel, "RUNS", runs)
    parallel.Parallel(steps=2, out=tmp_path / "parallel.json")()
    found = read(tmp_path / "parallel.json")
    recorded = read(record_path("parallel.json"))
    assert found["settings"] == recorded["settings"] | {"steps": 2}
    for row in found["rows"]:
        key = {name: row[name] for name in row.keys() & KEY}
        [expected] = [other for other in recorded["rows"] if key.items() <= other.items()]
        if row["what"] == "collective":
            assert row == expected
        else:
            for name in ("weights", "gradients", "moments"):
                assert row[name] == expected[name]
            assert row["losses"] == pytest.approx(expected["losses"][:2], rel=1e-4)
            assert row["sent"] == pytest.approx(expected["sent"], rel=0.01)


def test_a_failed_run_or_too_few_steps_raise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parallel, "PROGRAM", "raise SystemExit('a reason')")
    with pytest.raises(TfmrError, match=r"single.*1 processes failed"):
        list(parallel.measure(parallel.Parallel(steps=1), "single", 1, 0))
    with pytest.raises(TfmrError, match=r"--steps.*2.*got 1"):
        parallel.Parallel(steps=1, out=tmp_path / "parallel.json")()
