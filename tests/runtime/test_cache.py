"""The compile cache: hits, damage, foreign folders, full disks, kills and races."""

from __future__ import annotations

import errno
import json
import os
import random
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import pytest

from septran.runtime import cache as cache_module
from septran.runtime.cache import Cache, CacheWarning, cache_key, without_notes, without_places

KEY = "a" * 64
ROOT = Path(__file__).parents[2]


class Thing:
    """An executable of which only the text counts."""

    def __init__(self, text: str) -> None:
        self.text = text

    def save(self, folder: Path) -> None:
        (folder / "library.so").write_bytes(self.text.encode() * 50_000)
        (folder / "facts.json").write_text(json.dumps(self.text))

    @staticmethod
    def load(folder: Path) -> Thing:
        text = json.loads((folder / "facts.json").read_text())
        assert (folder / "library.so").read_bytes() == text.encode() * 50_000
        return Thing(text)


class Builder:
    def __init__(self, text: str = "built") -> None:
        self.text, self.count = text, 0

    def __call__(self) -> Thing:
        self.count += 1
        return Thing(self.text)


def kept(cache: Cache, key: str = KEY) -> Path:
    """The folder of an entry, which is built where there is none."""
    cache.load_or_build(key, Thing.load, Builder())
    return cache.find(key)


@pytest.fixture
def cache(tmp_path):
    return Cache(tmp_path / "cache")


@pytest.fixture(autouse=True)
def _warn_again(monkeypatch):
    monkeypatch.setattr(cache_module, "_warned", set())


def test_second_request_is_loaded(cache):
    build = Builder()
    for _ in range(3):
        assert cache.load_or_build(KEY, Thing.load, build).text == "built"
        assert Cache(cache.root).load_or_build(KEY, Thing.load, build).text == "built"
    assert build.count == 1


def test_info_and_clear(cache):
    assert cache.info().entries == 0
    cache.load_or_build(KEY, Thing.load, Builder())
    assert cache.info().entries == 1
    assert cache.info().size_bytes > 250_000
    assert "1 kernels, 0.2 of 1024 MiB" in str(cache.info())
    assert cache.clear() == 1
    assert cache.find(KEY) is None


def test_a_failed_build_leaves_nothing(cache):
    def fail():
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        cache.load_or_build(KEY, Thing.load, fail)
    assert cache.find(KEY) is None
    assert cache.load_or_build(KEY, Thing.load, Builder()).text == "built"


def test_an_entry_that_cannot_be_loaded_is_built(cache):
    cache.load_or_build(KEY, Thing.load, Builder())
    build = Builder()

    def fail(folder):
        raise OSError("made elsewhere")

    assert cache.load_or_build(KEY, fail, build).text == "built"
    assert build.count == 1


def test_every_truncation_and_flipped_bit_is_a_miss_and_rebuilt(cache):
    random.seed(0)
    for number in range(30):
        kept(cache)
        files = sorted((cache.root / "entries" / KEY).iterdir())
        file = files[number % len(files)]
        data = bytearray(file.read_bytes())
        if number % 2:
            del data[random.randrange(len(data)) :]
        else:
            data[random.randrange(len(data))] ^= 1 << random.randrange(8)
        file.write_bytes(data)
        found = cache.find(KEY)
        # A flipped bit of the list itself may leave its meaning as it was.
        assert found is None or (file.name == "manifest.json" and Thing.load(found))
        build = Builder("again")
        assert cache.load_or_build(KEY, Thing.load, build).text == (
            "again" if build.count else "built"
        )
        cache.clear()


@pytest.mark.parametrize(
    "manifest",
    [
        "",
        "[]",
        "null",
        "[" * 5000,
        '{"version": 1, "key": "KEY", "files": {}}',
        '{"version": 1, "key": "KEY", "files": {"../../../outside": "DIGEST"}}',
        '{"version": 1, "key": "KEY", "files": {"/OUTSIDE": "DIGEST"}}',
        '{"version": 1, "key": "KEY", "files": ["library.so"]}',
        '{"version": 1, "key": "other", "files": {"library.so": "DIGEST"}}',
        '{"version": 2, "key": "KEY", "files": {"library.so": "DIGEST"}}',
    ],
)
def test_forged_manifests_are_misses(cache, manifest):
    folder = kept(cache)
    old = json.loads((folder / "manifest.json").read_text())
    (cache.root / "outside").write_bytes((folder / "library.so").read_bytes())
    text = manifest.replace("KEY", KEY).replace("DIGEST", old["files"]["library.so"])
    text = text.replace("/OUTSIDE", str(cache.root / "outside"))
    (folder / "manifest.json").write_text(text)
    assert cache.find(KEY) is None


def test_links_and_pipes_in_an_entry_are_misses(cache):
    folder = kept(cache)
    library = folder / "library.so"
    library.rename(cache.root / "moved")
    library.symlink_to(cache.root / "moved")
    assert cache.find(KEY) is None
    library.unlink()
    os.mkfifo(library)
    assert cache.find(KEY) is None


def test_a_linked_entry_is_a_miss(cache):
    folder = kept(cache)
    folder.rename(cache.root / "moved")
    folder.symlink_to(cache.root / "moved")
    assert cache.find(KEY) is None


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777])
def test_a_folder_that_others_can_write_to_is_refused(cache, mode):
    kept(cache)
    cache.root.chmod(mode)
    build = Builder("fresh")
    with pytest.warns(CacheWarning, match="others can write to it"):
        assert Cache(cache.root).load_or_build(KEY, Thing.load, build).text == "fresh"


def test_a_foreign_folder_is_refused(cache, monkeypatch):
    kept(cache)
    me = cache.root.stat().st_uid
    monkeypatch.setattr(os, "geteuid", lambda: me + 1)
    if me == 0:  # root's folders are as trusted as root, so give it to someone else
        try:
            os.chown(cache.root, 12345, -1)
        except OSError:
            pytest.skip("cannot give a folder away here")
    with pytest.warns(CacheWarning, match="it belongs to user"):
        assert Cache(cache.root).find(KEY) is None


def test_a_full_disk_is_warned_of_once_and_kernels_still_run(cache):
    def full(folder):
        raise OSError(errno.ENOSPC, "No space left on device")

    thing = Thing("built")
    thing.save = full
    with pytest.warns(CacheWarning, match="No space left"):
        assert cache.load_or_build("a", Thing.load, lambda: thing) is thing
    for key in ("b", "c"):  # another warning would be an error
        assert cache.load_or_build(key, Thing.load, lambda: thing) is thing
    assert not list((cache.root / "staging").iterdir())


def test_without_a_c_compiler_the_warning_says_so(cache, monkeypatch):
    monkeypatch.setenv("PATH", "")

    def unlinkable(folder):
        raise TypeError("expected str, bytes or os.PathLike object, not NoneType")

    thing = Thing("built")
    thing.save = unlinkable
    with pytest.warns(CacheWarning, match="there is no C compiler"):
        assert cache.load_or_build("a", Thing.load, lambda: thing) is thing


def test_an_impossible_folder_is_warned_of_once(tmp_path):
    (tmp_path / "file").write_text("")
    cache = Cache(tmp_path / "file" / "cache")
    with pytest.warns(CacheWarning, match="is not used: Not a directory"):
        assert cache.load_or_build(KEY, Thing.load, Builder()).text == "built"
    for _ in range(2):
        assert Cache(cache.root).load_or_build(KEY, Thing.load, Builder()).text == "built"


def test_switched_off_it_leaves_no_trace(tmp_path, monkeypatch):
    monkeypatch.setenv("SEPTRAN_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("SEPTRAN_CACHE", "0")
    build = Builder()
    for _ in range(2):
        Cache.default().load_or_build(KEY, Thing.load, build)
    assert build.count == 2
    assert not (tmp_path / "cache").exists()
    monkeypatch.setenv("SEPTRAN_CACHE", "1")
    Cache.default().load_or_build(KEY, Thing.load, build)
    assert (tmp_path / "cache" / "entries" / KEY).is_dir()


def test_what_was_used_longest_ago_is_evicted(tmp_path):
    cache = Cache(tmp_path / "cache", limit_bytes=600_000)  # two entries of 250 kB
    for number, key in enumerate(("a", "b")):
        folder = kept(cache, key)
        os.utime(folder / "manifest.json", (number, number))
    assert cache.find("a")  # now b is older
    kept(cache, "c")
    assert [key for key in "abc" if cache.find(key)] == ["a", "c"]


def test_a_cache_is_looked_through_only_where_its_limit_may_be_near(tmp_path, monkeypatch):
    looked = []
    cache = Cache(tmp_path / "cache", limit_bytes=100_000_000)
    monkeypatch.setattr(cache, "_entries", lambda: looked.append(1) or Cache._entries(cache))
    for number in range(60):  # of 250 kB: an eighth of the room is 50 of them
        kept(cache, f"{number}")
    assert len(looked) == 2


def test_a_full_cache_is_not_looked_through_each_time(tmp_path, monkeypatch):
    monkeypatch.setattr("septran.runtime.cache.SHARE", 4)  # an eighth is for thousands of entries
    monkeypatch.setattr(Thing, "save", lambda self, to: (to / "x").write_bytes(bytes(5_000)))
    cache, looked = Cache(tmp_path / "cache", limit_bytes=500_000), []
    monkeypatch.setattr(cache, "_entries", lambda: looked.append(1) or Cache._entries(cache))
    for number in range(200):  # not 100 have room
        cache.load_or_build(f"{number}", lambda folder: folder, lambda: Thing(""))
        assert cache.find(f"{number}")
    assert len(looked) < 200 / 2, len(looked)
    assert 350_000 < cache.info().size_bytes <= 500_000


def test_folders_are_private(cache):
    folder = kept(cache)
    for path in (cache.root, folder.parent, folder, cache.root / "locks"):
        assert path.stat().st_mode & 0o077 == 0


def test_leftovers_of_killed_writers_are_removed(cache):
    """By the first that a process stores, or later ones."""
    for folder in (cache.root, cache.root / "staging"):
        folder.mkdir(mode=0o700)
    left = cache.root / "staging" / "1-x"
    left.mkdir()
    os.utime(left, (0, 0))
    fresh = cache.root / "staging" / "2-x"
    fresh.mkdir()
    kept(cache)
    assert not left.exists()
    assert fresh.exists()


def test_key_depends_on_every_part():
    parts = {"tensor_ir": "a", "mapping": "b", "target": "c"}
    keys = {cache_key(**parts)}
    keys |= {cache_key(**{**parts, name: "other"}) for name in parts}
    keys |= {cache_key(tensor_ir="ab", mapping="", target="c")}
    assert len(keys) == 5
    assert cache_key(**dict(reversed(parts.items()))) == cache_key(**parts)


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("mems  C: DRAM  rule 1 [my maps/a.yaml:12:17]", "mems  C: DRAM  rule 1"),
        (
            'with T.attr({"origin": "A is copied in [/x/logic.py:57, maps/cpu.yaml:27:15]"}):',
            'with T.attr({"origin": "A is copied in"}):',
        ),
        ("a[i, 0:16] = b [3]", "a[i, 0:16] = b [3]"),
        ("x = [1:2] + y", "x = [1:2] + y"),
    ],
)
def test_places_are_no_part_of_a_key(text, kept):
    assert without_places(f"one\n{text}\ntwo") == f"one\n{kept}\ntwo"


NOTED = """\
for i in range(4):
    with T.attr({"origin": "A is \\"it\\" [/x/a.py:3]; B is [<cell In[3]>:4]"}):
        C[i] = T.float32(1)
    T.attr({"origin": "A"})
    T.call_extern("void", "septran_note", "why [a.py:3]")
    T.call_extern("void", "other", "why [a.py:3]")
    with T.attr({"other": "A"}):
"""


def test_notes_are_no_part_of_a_key():
    assert (
        without_notes(NOTED)
        == """\
for i in range(4):
        C[i] = T.float32(1)
    T.call_extern("void", "other", "why [a.py:3]")
    with T.attr({"other": "A"}):
"""
    )


WRITER = """
import random, shutil, sys
sys.path.insert(0, {root!r})
from pathlib import Path
from septran.runtime.cache import Cache
from tests.runtime.test_cache import Thing
cache = Cache(sys.argv[1])
random.seed(int(sys.argv[2]))
while True:
    key = "k%d" % random.randrange(4)
    if random.random() < 0.3:
        shutil.rmtree(cache.root / "entries" / key, ignore_errors=True)
    assert cache.load_or_build(key, Thing.load, lambda: Thing(key)).text == key
    print(flush=True)
"""


def _start(script: str, *arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", script.format(root=str(ROOT)), *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.slow
def test_killed_writers_leave_no_torn_entry(tmp_path):
    root = tmp_path / "cache"
    random.seed(0)
    checked = 0
    for round_ in range(20):
        writers = [_start(WRITER, root, 2 * round_ + n) for n in range(2)]
        for writer in writers:
            writer.stdout.readline()  # it is in its loop
        time.sleep(random.random() * 0.05)
        for writer in writers:
            writer.send_signal(signal.SIGKILL)
            _, errors = writer.communicate()
            assert "Error" not in errors
        for key in ("k0", "k1", "k2", "k3"):
            folder = Cache(root).find(key)
            if folder is not None:
                checked += 1
                assert Thing.load(folder).text == key
            build = Builder(key)
            assert Cache(root).load_or_build(key, Thing.load, build).text == key
    assert checked


RACER = """
import sys, time
sys.path.insert(0, {root!r})
from septran.runtime.cache import Cache
from tests.runtime.test_cache import Thing
cache = Cache(sys.argv[1])
def build(key):
    print(key)
    time.sleep(0.01)
    return Thing(key)
for number in range(20):
    key = "k%d" % number
    assert cache.load_or_build(key, Thing.load, lambda: build(key)).text == key
"""


def test_eight_processes_compile_each_kernel_once(tmp_path):
    racers = [_start(RACER, tmp_path / "cache") for _ in range(8)]
    built = []
    for racer in racers:
        output, errors = racer.communicate(timeout=60)
        assert racer.returncode == 0, errors
        built += output.split()
    assert sorted(built) == sorted(f"k{n}" for n in range(20))


def test_threads_compile_each_kernel_once(cache):
    from concurrent.futures import ThreadPoolExecutor

    build = Builder()
    with ThreadPoolExecutor(8) as pool, warnings.catch_warnings():
        things = list(
            pool.map(lambda _: Cache(cache.root).load_or_build(KEY, Thing.load, build), range(8))
        )
    assert {t.text for t in things} == {"built"}
    assert build.count == 1
