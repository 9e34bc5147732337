"""A cache that makes the search among thousands of cases fast. Never required: it is rebuilt when it is missing,
out of date or damaged, and without it the files themselves are read.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Callable, Iterator

from npu_graph.case_features import Features

if TYPE_CHECKING:
    import sqlite3

# Raised whenever the features of a text change: an older cache would look for other ones.
CACHE_VERSION = 2
# Of each case the heaviest features are indexed: enough to find it; the score is then taken from the case itself.
INDEXED_FEATURES = 64
QUERY_FEATURES = 160
# A feature that more cases than this have tells little; its list is cut there.
MAX_POSTINGS = 600
BATCH = 200
# A folder changed more recently than this may change again within the same tick of the file system's clock.
SETTLED_NS = 2_500_000_000

_SCHEMA = """
CREATE TABLE IF NOT EXISTS doc (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT UNIQUE, size INTEGER, mtime INTEGER);
CREATE TABLE IF NOT EXISTS posting (feature INTEGER, doc INTEGER, PRIMARY KEY (feature, doc)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS folder (state INTEGER, thorough INTEGER);
"""
# A cache of another form than _SCHEMA: as useless as a damaged one.
_OTHER_FORM = ("no such", "no column", "has no", "values were supplied", "malformed")
# How long a call with little time, or with all the time it needs, waits for another process that writes the cache.
WAIT_BRIEFLY, WAIT = 0.05, 5.0


class CaseIndex:
    """An inverted index over the case files of one folder, kept in a private folder for temporary files.

    Args:
        folder: the folder that holds the case files.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path = cache_folder() / f"cases-{CACHE_VERSION}-{_digest(str(folder.resolve()))}.db"

    def discard(self) -> None:
        """Throw the cache away; the next call builds it again.

        Raises:
            OSError: it cannot be deleted.
        """
        if self._path.exists():
            self._path.unlink()

    def candidates(
        self,
        query: Features,
        names: Callable[[str], bool],
        features_of: Callable[[Path], Features],
        limit: int,
        seconds: float | None,
    ) -> list[str]:
        """Return names of case files that share the rarest features with the query, best first.

        Args:
            query: the features to look for.
            names: says whether a file name is a case.
            features_of: reads the features of a case file.
            limit: how many names at most.
            seconds: how long new files may be indexed in this call (None: all of them).

        Raises:
            OSError, sqlite3.Error, ImportError: the cache cannot be used; read the files instead.
        """
        import sqlite3

        try:
            return self._candidates(query, names, features_of, limit, seconds)
        except sqlite3.DatabaseError as error:
            is_busy = isinstance(error, sqlite3.OperationalError) and not any(
                part in str(error) for part in _OTHER_FORM
            )
            if is_busy:
                raise
            # Not a database, or a damaged one: throw it away and build it again.
            self.discard()
            return self._candidates(query, names, features_of, limit, seconds)

    def _candidates(
        self,
        query: Features,
        names: Callable[[str], bool],
        features_of: Callable[[Path], Features],
        limit: int,
        seconds: float | None,
    ) -> list[str]:
        with self._open(WAIT if seconds is None else WAIT_BRIEFLY) as connection:
            self._update(connection, names, features_of, seconds)
            return self._find(connection, query, limit)

    @contextlib.contextmanager
    def _open(self, wait: float) -> Iterator[sqlite3.Connection]:
        import sqlite3

        connection = sqlite3.connect(str(self._path), timeout=wait, isolation_level=None)
        try:
            connection.execute("PRAGMA synchronous=OFF")
            if len(connection.execute("SELECT name FROM sqlite_master WHERE type='table'").fetchall()) < 3:
                connection.executescript(_SCHEMA)
            yield connection
        finally:
            connection.close()

    def _update(
        self,
        connection: sqlite3.Connection,
        names: Callable[[str], bool],
        features_of: Callable[[Path], Features],
        seconds: float | None,
    ) -> None:
        """Bring the index up to date: as far as there is time for new cases, or thoroughly when there is no limit.

        With a limit only the names are compared: to ask for the state of 20,000 files takes too long. A case that was
        edited in place is then found by its former features, and scored by its present ones.
        """
        deadline = None if seconds is None else time.monotonic() + seconds
        state = self._folder.stat().st_mtime_ns
        known = connection.execute("SELECT state, thorough FROM folder").fetchone()
        if known is not None and known[0] == state and (known[1] or deadline is not None):
            return
        with os.scandir(str(self._folder)) as files:
            on_disk = {
                file.name: _state_of(self._folder / file.name) if deadline is None else None
                for file in files
                if names(file.name)
            }
        indexed = {name: (size, mtime) for name, size, mtime in connection.execute("SELECT name, size, mtime FROM doc")}
        gone = [name for name in indexed if name not in on_disk]
        # Newest first: when time runs out the latest cases are the ones that can be found.
        stale = sorted(
            (name for name, seen in on_disk.items() if name not in indexed or (seen and indexed[name] != seen)),
            reverse=True,
        )
        with contextlib.ExitStack() as unlocked:
            if deadline is not None:
                # Another process writes: it does this work, and what is indexed so far can be searched.
                unlocked.enter_context(_unless_locked())
            if len(gone) * 2 > len(indexed):
                self._transact(connection, lambda: self._clear(connection))
                stale = sorted(on_disk, reverse=True)
            elif gone:
                self._transact(
                    connection, lambda: connection.executemany("DELETE FROM doc WHERE name=?", [(n,) for n in gone])
                )
            for start in range(0, len(stale), BATCH):
                if deadline is not None and time.monotonic() > deadline:
                    return
                self._add(connection, stale[start : start + BATCH], features_of, deadline)
            if time.time_ns() - state > SETTLED_NS and (deadline is None or time.monotonic() < deadline):
                self._transact(connection, lambda: self._set_state(connection, state, deadline is None))

    @staticmethod
    def _clear(connection: sqlite3.Connection) -> None:
        for table in ("doc", "posting", "folder"):
            connection.execute(f"DELETE FROM {table}")

    @staticmethod
    def _set_state(connection: sqlite3.Connection, state: int, thorough: bool) -> None:
        connection.execute("DELETE FROM folder")
        connection.execute("INSERT INTO folder VALUES (?, ?)", (state, int(thorough)))

    def _add(
        self,
        connection: sqlite3.Connection,
        batch: list[str],
        features_of: Callable[[Path], Features],
        deadline: float | None,
    ) -> None:
        ready: list[tuple[str, tuple[int, int], list[int]]] = []
        for name in batch:
            if deadline is not None and time.monotonic() > deadline:
                break
            # The state first: a case that changes while it is read is read again the next time.
            seen = _state_of(self._folder / name)
            ready.append((name, seen, _hashes(features_of(self._folder / name), INDEXED_FEATURES)))

        def insert() -> None:
            rows: list[tuple[int, int]] = []
            for name, seen, hashes in ready:
                connection.execute("DELETE FROM doc WHERE name=?", (name,))
                cursor = connection.execute("INSERT INTO doc (name, size, mtime) VALUES (?, ?, ?)", (name, *seen))
                rows += [(value, int(cursor.lastrowid or 0)) for value in hashes]
            connection.executemany("INSERT OR IGNORE INTO posting VALUES (?, ?)", sorted(rows))

        self._transact(connection, insert)

    @staticmethod
    def _transact(connection: sqlite3.Connection, work: Callable[[], object]) -> None:
        connection.execute("BEGIN IMMEDIATE")
        try:
            work()
        except BaseException:
            connection.execute("ROLLBACK")
            raise
        connection.execute("COMMIT")

    @staticmethod
    def _find(connection: sqlite3.Connection, query: Features, limit: int) -> list[str]:
        points: dict[int, float] = {}
        chosen = sorted(query.items(), key=lambda item: -item[1])[:QUERY_FEATURES]
        for name, weight in chosen:
            rows = connection.execute(
                "SELECT doc FROM posting WHERE feature=? LIMIT ?", (_hash(name), MAX_POSTINGS)
            ).fetchall()
            share = weight / (1 + len(rows)) ** 0.5
            for (doc,) in rows:
                points[doc] = points.get(doc, 0.0) + share
        best = sorted(points, key=lambda doc: (-points[doc], doc))[: limit * 2]
        found: list[str] = []
        for doc in best:
            row = connection.execute("SELECT name FROM doc WHERE id=?", (doc,)).fetchone()
            if row is not None:  # a changed or removed case leaves its old postings behind
                found.append(row[0])
        return found[:limit]


def cache_folder() -> Path:
    """Return a folder for caches that only this user can write; made when it is missing.

    Raises:
        OSError: there is none, or somebody else's folder stands in its place.
    """
    owner = os.getuid() if hasattr(os, "getuid") else 0
    folder = Path(tempfile.gettempdir()) / f"npu-graph-cache-{owner}"
    folder.mkdir(mode=0o700, exist_ok=True)
    status = folder.lstat()
    is_private = stat.S_ISDIR(status.st_mode) and (
        os.name != "posix" or (status.st_uid == owner and not status.st_mode & 0o022)
    )
    if not is_private:
        raise OSError(f"{folder} is not a private folder")
    return folder


def _state_of(path: Path) -> tuple[int, int]:
    """Return what changes when a file does; nothing that equals it when the file is gone."""
    try:
        status = path.stat()
    except OSError:
        return (-1, -1)
    return (status.st_size, status.st_mtime_ns)


@contextlib.contextmanager
def _unless_locked() -> Iterator[None]:
    """Give up quietly where another process holds the cache."""
    import sqlite3

    try:
        yield
    except sqlite3.OperationalError as error:
        if "locked" not in str(error):
            raise


def _hashes(features: Features, most: int) -> list[int]:
    chosen = sorted(features.items(), key=lambda item: (-item[1], item[0]))[:most]
    return [_hash(name) for name, _ in chosen]


def _hash(name: str) -> int:
    return int.from_bytes(hashlib.blake2b(name.encode("utf-8", "replace"), digest_size=8).digest(), "big", signed=True)


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=8).hexdigest()
