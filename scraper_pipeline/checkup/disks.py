"""What can be told of the disk that a file is on."""

import shutil
from pathlib import Path

_MOUNTS = Path("/proc/self/mountinfo")
_REMOTE = frozenset(
    {"9p", "afs", "ceph", "cifs", "fuse.glusterfs", "fuse.s3fs", "fuse.sshfs", "glusterfs", "lustre", "nfs", "nfs4",
     "smb3", "smbfs", "virtiofs"}
)  # fmt: skip


def existing_parent(path: Path) -> Path:
    """The path itself, or the nearest folder above it that is there."""
    path = path.expanduser().absolute()
    while not path.exists():
        path = path.parent
    return path


def free_bytes(path: Path) -> int:
    return shutil.disk_usage(existing_parent(path)).free


def network_file_system(path: Path, mounts: Path = _MOUNTS) -> str | None:
    """The kind of file system if it is known to be served by another machine; None if it isn't, or can't be told."""
    try:
        lines = mounts.read_text("utf-8", "surrogateescape").splitlines()
    except OSError:  # only Linux tells
        return None
    where = existing_parent(path).resolve()
    deepest, kind = -1, ""
    for line in lines:
        # proc(5): the mount point is the fifth field, the kind is the first one behind the dash.
        before, dash, after = line.partition(" - ")
        fields = before.split(" ")
        if not dash or len(fields) < 5:
            continue
        point = Path(_unescaped(fields[4]))
        if (
            where.is_relative_to(point) and len(point.parts) >= deepest
        ):  # of two at one place the later one counts
            deepest, kind = len(point.parts), after.split(" ")[0]
    return kind if kind in _REMOTE else None


def _unescaped(field: str) -> str:
    for code in ("040", "011", "012", "134"):
        field = field.replace(f"\\{code}", chr(int(code, 8)))
    return field
