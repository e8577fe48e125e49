"""What is told of disks."""

from pathlib import Path

import pytest

from scraper_pipeline.checkup.database import check_disk
from scraper_pipeline.checkup.disks import existing_parent, free_bytes, network_file_system

MOUNTS = """\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
40 22 0:50 / {shared} rw,relatime shared:9 - nfs4 server:/export rw,vers=4.2
41 40 8:2 / {local} rw,relatime - ext4 /dev/sdb1 rw
a line that nobody can read
"""


@pytest.fixture
def mounts(tmp_path: Path) -> Path:
    (tmp_path / "on the server" / "local").mkdir(parents=True)
    shared = str(tmp_path / "on the server").replace(" ", "\\040")
    table = tmp_path / "mountinfo"
    table.write_text(MOUNTS.format(shared=shared, local=f"{shared}/local"))
    return table


def test_a_file_on_a_network_file_system_is_known_by_the_deepest_mount_above_it(tmp_path: Path, mounts: Path):
    shared = tmp_path / "on the server"
    assert network_file_system(shared / "not" / "there" / "ledger.db", mounts) == "nfs4"
    assert network_file_system(shared / "local" / "ledger.db", mounts) is None
    assert network_file_system(tmp_path / "ledger.db", mounts) is None


def test_nothing_is_said_where_it_can_not_be_told(tmp_path: Path):
    assert network_file_system(tmp_path, tmp_path / "nowhere") is None


def test_the_room_for_a_file_that_is_not_there_is_that_of_the_folder_above(tmp_path: Path):
    assert existing_parent(tmp_path / "a" / "b" / "ledger.db") == tmp_path
    assert free_bytes(tmp_path / "a" / "b" / "ledger.db") > 0


def test_a_disk_that_fills_up_is_a_warning_and_a_full_one_a_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    said = []
    for free in (10**10, 10**9, 10**7):
        monkeypatch.setattr("scraper_pipeline.checkup.database.free_bytes", lambda path, free=free: free)
        said.append([str(one.grade) for one in check_disk(tmp_path / "ledger.db")])
    assert said == [[], ["warning"], ["problem"]]
