"""The web-components polyfill of the plugin's Trace view: fetched by npm once, and kept.

The view needs HTML imports and custom elements as Chrome had them until 2020; webcomponents.js 0.7.24 brings them back.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

import platformdirs

from ..records import write_atomically

PACKAGE = "webcomponents.js@0.7.24"
MEMBER = "package/webcomponents.min.js"
SHA256 = "3858273ab39b299e7c2227f0830534afafaabf4a572c9ea73c2076fecbd8978c"
TIMEOUT_S = 60


class NoPolyfillError(LookupError):
    """It is not kept here and cannot be fetched; the message says what to do."""


def kept() -> Path:
    """Where it is kept."""
    return Path(platformdirs.user_cache_dir("autofn")) / "webcomponents-0.7.24.min.js"


def fetched() -> Path:
    """Its file, fetched where it is not kept yet. Raises NoPolyfillError."""
    path = kept()
    if not path.is_file():
        write_atomically(path, _from_npm())
    return path


def _from_npm() -> str:
    npm = shutil.which("npm")
    if not npm:
        raise NoPolyfillError(_way_out("npm is not on the PATH"))
    with tempfile.TemporaryDirectory() as folder:
        try:
            subprocess.run(
                [npm, "pack", "--silent", PACKAGE], cwd=folder, check=True, capture_output=True, timeout=TIMEOUT_S
            )
        except subprocess.CalledProcessError as error:
            said = error.stderr.decode(errors="replace").strip().splitlines()
            raise NoPolyfillError(_way_out(f"npm says: {said[0] if said else error}")) from error
        except subprocess.TimeoutExpired as error:
            raise NoPolyfillError(_way_out(f"npm did not answer in {TIMEOUT_S} s")) from error
        (archive,) = Path(folder).glob("*.tgz")
        with tarfile.open(archive) as opened:
            member = opened.extractfile(MEMBER)
            content = member.read() if member else b""
    if hashlib.sha256(content).hexdigest() != SHA256:
        raise NoPolyfillError(f"what npm gave as {PACKAGE} is not the published file; its SHA-256 is another")
    return content.decode()


def _way_out(why: str) -> str:
    return (
        f"{why}. With internet `autofn trace --view --offline` fetches what it needs once; or run `npm pack {PACKAGE}` "
        f"elsewhere and copy {MEMBER} to {kept()}"
    )
