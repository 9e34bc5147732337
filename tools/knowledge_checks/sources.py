"""Where sources are read: wheels as zip files, git repositories at any revision, plain folders. Nothing is imported."""

from __future__ import annotations

import builtins
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Iterable, Iterator

TORCH_NPU_REPO = "Ascend/pytorch"
# Larger files are data (weights, recorded logs), not sources.
MAX_FILE_BYTES = 3 * 1024 * 1024
DOWNLOAD_SECONDS = 300


# Revisions in the order in which they are searched: what users run first, old releases last.
REVISIONS = {
    "Ascend/pytorch": (
        "v2.12.0",
        "v2.9.0-26.1.0",
        "v2.8.0-26.0.0",
        "v2.7.1-7.3.0",
        "v2.6.0-7.1.0",
        "v2.1.0-7.0.0",
        "master",
    ),
    "hicann/runtime": ("681ef7610", "9.1.0", "8.5.0"),
    "Ascend/torchair": ("fced8842", "26.0.0", "7.2.0"),
    "Ascend/op-plugin": ("26.1.0", "7.2.0", "517f2e7d"),
    "vllm-project/vllm-ascend": ("v0.23.0", "v0.18.0", "v0.13.0", "v0.11.0", "v0.9.1-dev", "182b75ea8"),
    "xLLM-AI/xllm": ("v0.10.1", "3906f5a91"),
    "hicann/ge": ("ffdcbc9f7",),
    "hicann/opbase": ("aa3cd74b7",),
}


class SourceError(Exception):
    """Sources that were asked for cannot be had."""


class Repository:
    """A git repository (bare or with a work tree), read at the revision that a fact names."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self._folder = folder
        self._commits: dict[str, str] = {}
        self._texts: dict[tuple[str, str], str | None] = {}
        self._lists: dict[str, list[str]] = {}
        if self._git("rev-parse", "--git-dir") is None:
            raise SourceError(f"{folder} is not a git repository; give a clone of {name}")

    @property
    def folder(self) -> Path:
        return self._folder

    def resolve(self, ref: str) -> str:
        """Return the commit of a branch, tag or (short) commit; '' when the repository has none."""
        if ref not in self._commits:
            names = (f"refs/heads/{ref}", f"refs/remotes/origin/{ref}", f"refs/tags/{ref}", ref)
            found = (self._git("rev-parse", "-q", "--verify", f"{name}^{{commit}}") for name in names)
            self._commits[ref] = next((text.strip() for text in found if text), "")
        return self._commits[ref]

    @property
    def refs_read(self) -> dict[str, str]:
        return {ref: commit for ref, commit in self._commits.items() if commit}

    def read(self, ref: str, path: str) -> str | None:
        """Return a file's text at a revision, None when there is no such file."""
        commit = self.resolve(ref)
        if not commit:
            return None
        if (commit, path) not in self._texts:
            self._texts[commit, path] = self._git("show", f"{commit}:{path}")
        return self._texts[commit, path]

    def list(self, ref: str) -> builtins.list[str]:
        """Return every path of a revision."""
        commit = self.resolve(ref)
        if commit and commit not in self._lists:
            self._lists[commit] = (self._git("ls-tree", "-r", "--name-only", "-z", commit) or "").split("\0")
        return self._lists.get(commit, [])

    def grep(self, ref: str, words: Iterable[str]) -> builtins.list[str]:
        """Return `path:line:text` of the lines of a revision that hold one of the words."""
        options = [part for word in words for part in ("-e", word)]
        text = self._git("grep", "-n", "-w", "-I", "-F", *options, self.resolve(ref)) or ""
        return [line.partition(":")[2][:160] for line in text.splitlines()]

    def changes(self, commits: Iterable[str]) -> dict[str, tuple[str, str, frozenset[str]]]:
        """Return (day, subject, files) of the given commits, by their first ten digits; without those it has not."""
        wanted = "\n".join(commits)
        command = ["git", "-C", str(self._folder), "-c", "core.quotepath=off", "log", "--no-walk=unsorted", "--stdin"]
        command += ["--ignore-missing", "--no-renames", "--name-only", "--format=%x01%H%x02%cs%x02%s%x02"]
        done = subprocess.run(command, input=wanted.encode(), capture_output=True, timeout=300, check=False)
        found = {}
        for record in done.stdout.decode("utf-8", "replace").split("\x01")[1:]:
            commit, day, subject, files = record.split("\x02", 3)
            found[commit[:10]] = (day, subject, frozenset(files.split("\n")))
        return found

    def blobs(self, ref: str, seen: set[str]) -> Iterator[tuple[str, str]]:
        """Yield (path, text) of the files of a revision whose content was not yielded before."""
        listing = self._git("ls-tree", "-r", "-l", "-z", self.resolve(ref)) or ""
        wanted: list[tuple[str, str]] = []
        for entry in listing.split("\0"):
            head, _, path = entry.partition("\t")
            cells = head.split()
            if len(cells) != 4 or cells[1] != "blob" or not cells[3].isdigit():
                continue  # a submodule, or a file that the snapshot lacks
            if int(cells[3]) <= MAX_FILE_BYTES and cells[2] not in seen:
                seen.add(cells[2])
                wanted.append((cells[2], path))
        command = ["git", "-C", str(self._folder), "cat-file", "--batch"]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            assert process.stdin and process.stdout
            for blob, path in wanted:
                process.stdin.write(f"{blob}\n".encode())
                process.stdin.flush()
                size = int(process.stdout.readline().split()[2])
                data = process.stdout.read(size + 1)
                if b"\0" not in data[:4096]:
                    yield path, data.decode("utf-8", "replace")
            process.stdin.close()

    def _git(self, *arguments: str) -> str | None:
        command = ["git", "-C", str(self._folder), *arguments]
        done = subprocess.run(command, capture_output=True, timeout=120, check=False)
        return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else None


class Wheel:
    """A wheel, read as a zip file, or a source distribution of one package."""

    def __init__(self, path: Path) -> None:
        name = path.name[: -len(".tar.gz")] if path.name.endswith(".tar.gz") else path.name
        self.name, self.version = name.split("-")[:2]
        self._archive = None if path.name.endswith(".tar.gz") else zipfile.ZipFile(path)
        self._unpacked = _python_files(path) if self._archive is None else {}
        self._names = frozenset(self._archive.namelist() if self._archive is not None else self._unpacked)

    def read(self, path: str) -> str | None:
        if path not in self._names:
            return None
        data = self._archive.read(path) if self._archive is not None else self._unpacked[path]
        return data.decode("utf-8", "replace")

    def texts(self, ending: str = ".py") -> Iterator[tuple[str, str]]:
        for name in sorted(self._names):
            if name.endswith(ending):
                yield name, self.read(name) or ""


def _python_files(path: Path) -> dict[str, bytes]:
    """Return the Python files of a source distribution that are installed: the package's, not tests or tools."""
    files = {}
    package = path.name.split("-")[0] + "/"
    with tarfile.open(path) as archive:
        for member in archive:
            opened = archive.extractfile(member) if member.isfile() and member.name.endswith(".py") else None
            name = re.sub(r"^python/", "", member.name.partition("/")[2])
            if opened is not None and name.startswith(package):
                files[name] = opened.read()
    return files


class Sources:
    """Every source that one run may look at."""

    def __init__(self) -> None:
        self.repositories: dict[str, Repository] = {}
        # (repository, version): wheels of other packages.
        self.packages: dict[tuple[str, str], Wheel] = {}
        self.torch_npu: dict[str, Wheel] = {}

    def add_checkout(self, argument: str) -> None:
        """Add `OWNER/NAME=DIR`, or `OWNER/NAME=FILE` with a wheel or source distribution."""
        name, _, place = argument.partition("=")
        path = Path(place).expanduser()
        if path.name.endswith((".whl", ".tar.gz")) and path.is_file():
            wheel = Wheel(path)
            self.packages[name, wheel.version] = wheel
        elif re.fullmatch(r"[\w.-]+/[\w.-]+", name) and path.is_dir():
            self.repositories[name] = Repository(name, path)
        else:
            raise SourceError(f"{argument!r}: expected OWNER/NAME=DIR, or =FILE with a wheel or .tar.gz, that exists")

    def add_wheels(self, versions: list[str], cache: Path) -> None:
        """Add torch_npu wheels by version, from the cache folder, else downloaded into it with pip."""
        for version in versions:
            found = find_wheel(cache, version) or download_wheel(cache, version)
            self.torch_npu[version] = Wheel(found)


def find_wheel(cache: Path, version: str) -> Path | None:
    found = sorted(cache.glob(f"torch_npu-{version}-*.whl")) if cache.is_dir() else []
    return found[0] if found else None


def download_wheel(cache: Path, version: str) -> Path:
    """Download one torch_npu wheel of any platform: only its Python files are read.

    Raises:
        SourceError: pip cannot get it (no network, no such version).
    """
    cache.mkdir(parents=True, exist_ok=True)
    reasons = []
    # Older wheels carry the older platform tag.
    for platform in ("manylinux_2_28_x86_64", "manylinux_2_17_x86_64"):
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
        command += ["--python-version", "3.11", "--platform", platform, "-d", str(cache), f"torch_npu=={version}"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=DOWNLOAD_SECONDS, check=False)
        except subprocess.TimeoutExpired:
            raise SourceError(f"torch_npu {version}: pip did not finish in {DOWNLOAD_SECONDS} s") from None
        found = find_wheel(cache, version)
        if found:
            return found
        reasons = done.stderr.strip().splitlines() or ["no reason given"]
    raise SourceError(f"torch_npu {version} cannot be downloaded: {reasons[-1][:200]}")
