"""The committed JavaScript library of the live figures is the pinned npm package."""

from pathlib import Path

import pytest

from tools import ROOT, vendor


def test_the_committed_files_were_compared_with_the_pinned_package() -> None:
    # The stamp is written only after the comparison, and it contains the committed files.
    mark = vendor.BOOK / "vendor" / vendor.STAMP
    assert mark.is_file(), "install the page libraries first: make book"
    assert mark.read_text("utf-8").strip() == vendor.stamp()


def packages(folder: Path, content: bytes) -> Path:
    for name in vendor.COMMITTED:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


def test_a_difference_is_an_error_until_it_is_updated(tmp_path: Path) -> None:
    root = tmp_path / "root"
    for name in vendor.COMMITTED.values():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes((ROOT / name).read_bytes())
    newer = packages(tmp_path / "node_modules", b"newer")
    with pytest.raises(vendor.VendorError, match=r"--update"):
        vendor.compare_committed(newer, root=root)
    vendor.compare_committed(newer, update=True, root=root)
    vendor.compare_committed(newer, root=root)
    for name in vendor.COMMITTED.values():
        assert (root / name).read_bytes() == b"newer"


def test_a_changed_committed_file_changes_the_stamp(monkeypatch: pytest.MonkeyPatch) -> None:
    before = vendor.stamp()
    monkeypatch.setattr(vendor, "COMMITTED", {"x": "LICENSE"})
    assert vendor.stamp() != before
