"""Memory: that of the machine, or what a container has of it."""

import psutil
import pytest

from napari_maskinversion.base.memory import free_memory, total_memory

MEGA = 10**6


def group(folder, version, limit, use, cache):
    """Write the files of a control group."""
    names = {
        1: ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
        2: ("memory.max", "memory.current", "inactive_file"),
    }[version]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / names[0]).write_text(f"{limit}\n")
    (folder / names[1]).write_text(f"{use}\n")
    (folder / "memory.stat").write_text(f"anon 5\n{names[2]} {cache}\n")


@pytest.mark.parametrize(
    ("version", "groups", "place"),
    [
        (2, "0::/\n", ""),  # within a container
        (2, "0::/user.slice/a.scope\n", "user.slice"),  # a limit of a group above
        (1, "5:cpu:/b\n4:cpuset,memory:/docker/123\n0::/\n", "memory"),
        (1, "4:memory:/user.slice/a:b.scope\n", "memory/user.slice/a:b.scope"),
    ],
)
def test_the_limit_of_a_container_counts(tmp_path, version, groups, place):
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text(groups)
    group(tmp_path / "sys/fs/cgroup" / place, version, 50 * MEGA, 30 * MEGA, 10 * MEGA)
    assert (total_memory(tmp_path), free_memory(tmp_path)) == (50 * MEGA, 30 * MEGA)
    group(tmp_path / "sys/fs/cgroup" / place, version, 50 * MEGA, 70 * MEGA, 10 * MEGA)
    assert free_memory(tmp_path) == 0


@pytest.mark.parametrize("limit", ["max", 2**63 - 4096])
def test_without_a_limit_the_machine_counts(tmp_path, limit):
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text("0::/\n")
    assert total_memory(tmp_path) == psutil.virtual_memory().total
    group(tmp_path / "sys/fs/cgroup", 2, limit, 30 * MEGA, 10 * MEGA)
    assert total_memory(tmp_path) == psutil.virtual_memory().total
    assert 0 < free_memory(tmp_path) <= total_memory(tmp_path)
    assert total_memory(tmp_path / "nowhere") == total_memory(tmp_path)
