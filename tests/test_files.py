"""Files written whole or not at all."""

from __future__ import annotations

import pytest

from surrogate.files import FileWriteError, replaced_atomically, write_bytes_atomically, write_text_atomically


def test_writes_and_creates_folders(tmp_path):
    write_text_atomically(tmp_path / "a" / "b.txt", "Größe\n")
    assert (tmp_path / "a" / "b.txt").read_bytes() == "Größe\n".encode()


def test_failure_leaves_the_old_file_and_no_rubbish(tmp_path):
    target = tmp_path / "kept.bin"
    write_bytes_atomically(target, b"old")
    with pytest.raises(RuntimeError), replaced_atomically(target) as temporary:
        temporary.write_bytes(b"half")
        raise RuntimeError("killed")
    assert target.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [target]


def test_unwritable_place_is_one_line(tmp_path):
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(FileWriteError, match="cannot be written"):
        write_bytes_atomically(tmp_path / "file" / "child", b"")


def test_target_that_is_a_folder_is_refused(tmp_path):
    (tmp_path / "folder").mkdir()
    with pytest.raises(FileWriteError, match="cannot be written"):
        write_bytes_atomically(tmp_path / "folder", b"")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_permissions_follow_the_umask(tmp_path):
    write_bytes_atomically(tmp_path / "shared", b"")
    (tmp_path / "plain").touch()
    assert (tmp_path / "shared").stat().st_mode == (tmp_path / "plain").stat().st_mode
