"""Downloads a data set's archives and unpacks them; `batchless data fetch` runs it.

    fetch_archives.py URL WORK INTO (--unpack | --copy) FILE BYTES SHA256 [FILE BYTES SHA256]...

Archives lie in the folder WORK, under FILE.partial until the digest is right; a second attempt takes up
the first. Then they are unpacked, or copied as they are, into the folder INTO. What goes wrong is one line
on standard output, with exit code 1.
"""

import hashlib
import http.client
import os
import shutil
import sys
import tarfile
import time
import urllib.error
import urllib.request
import zlib
from pathlib import Path

TRIES = 4
STALLED_SECONDS = 60
PIECE = 1 << 16
PARENT = os.getppid()


class FetchError(Exception):
    """One line."""


class Bar:
    """Bytes of a file on standard error where that is a terminal, as the program's other progress."""

    def __init__(self, name: str, total: int):
        self.name, self.total, self.last = name, total, time.monotonic()
        self.shown = False

    def update(self, done: int) -> None:
        if not sys.stderr.isatty() or time.monotonic() - self.last < 0.1:
            return
        self.last, self.shown = time.monotonic(), True
        line = f"{done} / {self.total} bytes of {self.name}"
        columns = shutil.get_terminal_size().columns - 1
        width = min(40, columns - len(line) - 3)
        if width >= 6:
            line = f"[{'#' * (width * min(done, self.total) // self.total):<{width}}] {line}"
        print(f"\r{line[:columns]}\033[K", end="", file=sys.stderr, flush=True)

    def close(self) -> None:
        if self.shown:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


def size_of(file: Path) -> int:
    return file.stat().st_size if file.exists() else 0


def receive_once(url: str, partial: Path, bar: Bar) -> None:
    """Appends the rest of what the URL has to the file; what never ends would fill the disk."""
    before = size_of(partial)
    is_file = url.startswith("file:")
    request = urllib.request.Request(url)
    if before and not is_file:
        request.add_header("Range", f"bytes={before}-")
    with urllib.request.urlopen(request, timeout=STALLED_SECONDS) as response:
        if is_file:
            response.seek(before)
        elif before and response.status != http.client.PARTIAL_CONTENT:
            before = 0  # the server sends all of it again
        length = response.headers.get("Content-Length")
        expected = None if length is None else int(length) + (0 if is_file else before)
        with open(partial, "ab" if before else "wb") as out:
            while piece := response.read(PIECE):
                out.write(piece)
                bar.update(out.tell())
                if out.tell() > bar.total:
                    partial.unlink()
                    raise FetchError(f"{url}: more than the file's {bar.total} bytes")
                if os.getppid() != PARENT:
                    raise FetchError("the program that asked for it has ended")
    if expected is not None and size_of(partial) < expected:
        raise ConnectionError("the transfer ended early")


def reason_of(error: Exception) -> str:
    cause = getattr(error, "reason", error)
    if isinstance(error, urllib.error.HTTPError):
        return f"the server says {error.code} {error.reason}"
    return getattr(cause, "strerror", None) or str(cause) or type(cause).__name__


def receive(url: str, partial: Path, total: int) -> None:
    bar = Bar(partial.stem, total)
    try:
        for attempt in range(1, TRIES + 1):
            try:
                return receive_once(url, partial, bar)
            except (OSError, http.client.HTTPException, ValueError) as error:
                cause = getattr(error, "reason", error)
                again = (ConnectionError, TimeoutError, http.client.HTTPException)
                if attempt == TRIES or not isinstance(cause, again):
                    raise FetchError(f"{url}: {reason_of(error)}") from None
    finally:
        bar.close()


def download(url: str, file: Path, total: int, sha256: str) -> None:
    if file.exists():
        return
    partial = file.with_name(file.name + ".partial")
    if size_of(partial) < total:
        receive(url, partial, total)
    # What Python 3.11 calls hashlib.file_digest.
    hashed = hashlib.sha256()
    with open(partial, "rb") as content:
        while piece := content.read(PIECE):
            hashed.update(piece)
    digest = hashed.hexdigest()
    if digest != sha256:
        partial.unlink()
        raise FetchError(f"{url}: its SHA-256 is {digest}, expected {sha256}")
    partial.rename(file)


def unpack(file: Path, into: Path) -> None:
    """Refuses everything but files and folders, and names that lead out of the folder."""
    try:
        with tarfile.open(file) as archive:
            for member in archive:
                name = os.path.normpath(member.name)
                inside = not os.path.isabs(name) and name.split("/")[0] != ".."
                if not inside or not (member.isreg() or member.isdir()):
                    raise FetchError(f"{file}: {name}, accepted: a file in the archive's own folder")
                path = into / name
                (path if member.isdir() else path.parent).mkdir(parents=True, exist_ok=True)
                if member.isreg():
                    with archive.extractfile(member) as content, open(path, "wb") as out:
                        shutil.copyfileobj(content, out)
    except (tarfile.TarError, EOFError, zlib.error) as error:
        raise FetchError(f"{file}: {error}") from None


def main(url: str, work: str, into: str, how: str, *archives: str) -> None:
    for name, total, sha256 in zip(*[iter(archives)] * 3):
        download(f"{url.rstrip('/')}/{name}", Path(work, name), int(total), sha256)
    for name in archives[::3]:
        if how == "--unpack":
            unpack(Path(work, name), Path(into))
        else:
            shutil.copyfile(Path(work, name), Path(into, name))


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except FetchError as error:
        print(error)
        sys.exit(1)
    except OSError as error:
        # What fails while bytes are written, on a full disk, names no file.
        print(f"{error.filename or sys.argv[3]}: {error.strerror or error}")
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
