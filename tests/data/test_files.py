"""Files are whole or absent, and what a killed writer leaves is removed by the next one."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from tfmr.data.files import SUFFIX, explain_os_error, lock_folder, temporary_folder, write_atomic


def killed_while_writing(path: Path, write: Callable[[Path], object]) -> None:
    """Let a process that writes ``path`` kill itself after ``write``."""
    process = os.fork()
    if process == 0:
        write_atomic(path, lambda file: (write(file), os.kill(os.getpid(), signal.SIGKILL)))
        os._exit(0)
    _, status = os.waitpid(process, 0)
    assert os.waitstatus_to_exitcode(status) == -signal.SIGKILL


def write_tensors(file: Path) -> None:
    """Write as safetensors does: to a file of its own beside ``file``."""
    save_file({"x": torch.zeros(2)}, file)
    file.with_name(".tmpAB12cd").write_bytes(bytes(99))


@pytest.mark.parametrize("name", ["model", "another [x] *"])
def test_the_next_writer_removes_what_a_killed_one_left(tmp_path: Path, name: str) -> None:
    write_atomic(tmp_path / "model", lambda file: file.write_text("old"))
    killed_while_writing(tmp_path / "model", write_tensors)
    assert (tmp_path / "model").read_text() == "old"
    [left] = [path for path in tmp_path.iterdir() if path.name != "model"]
    assert left.name.startswith(".model.")
    write_atomic(tmp_path / name, lambda file: file.write_text("new"))
    assert {path.name for path in tmp_path.iterdir()} == {"model", name}


def test_nothing_of_others_is_removed(tmp_path: Path) -> None:
    """Neither the folder of a process that still writes, nor one that tfmr did not make."""
    for name in (".other", f".own{SUFFIX}", f"x.abcdefgh{SUFFIX}"):
        (tmp_path / name).mkdir()
    (tmp_path / f".file.abcdefgh{SUFFIX}").touch()
    before = set(tmp_path.iterdir())
    with temporary_folder(tmp_path / "a") as folder:
        (folder / "x").touch()
        write_atomic(tmp_path / "a", lambda file: file.write_text("new"))
        assert (folder / "x").exists()
    assert set(tmp_path.iterdir()) == {*before, tmp_path / "a"}


def test_a_folder_that_another_process_removes_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other may come between the creation of the folder and its lock."""
    made: list[Path] = []

    def lock_and_lose_the_first(folder: Path):
        made.append(folder)
        if len(made) == 1:
            folder.rmdir()
        return lock_folder(folder)

    monkeypatch.setattr("tfmr.data.files.lock_folder", lock_and_lose_the_first)
    with temporary_folder(tmp_path / "a") as folder:
        assert folder.is_dir()
    assert folder == made[-1]
    assert len(made) == 2


def test_an_error_while_writing_is_not_swallowed(tmp_path: Path) -> None:
    for error in (FileNotFoundError("x"), OSError("x"), KeyboardInterrupt()):

        def fail(_: Path, error: BaseException = error) -> None:
            raise error

        with pytest.raises(type(error)):
            write_atomic(tmp_path / "a", fail)
    assert list(tmp_path.iterdir()) == []


def test_an_error_is_explained_without_the_temporary_name(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    with pytest.raises(OSError, match="directory") as error:
        write_atomic(tmp_path / "a", lambda file: file.write_text("x"))
    text = explain_os_error(error.value)
    assert text == "Is a directory; move the folder of this name away, or give a file"
    assert explain_os_error(OSError("odd\nlines")).startswith("odd; check ")
    assert explain_os_error(OSError()).startswith("OSError; check ")
