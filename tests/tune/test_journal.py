"""A journal of candidates: what is taken from it, what is not, and searches that were killed."""

from __future__ import annotations

import itertools
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner

import septran
from septran.cli import app
from septran.tuning import journal as journals
from septran.tuning.journal import Journal, JournalError
from septran.tuning.measuring import MeasuringWorker
from septran.views.pictures.scatter import TimePoint, front, scatter_svg

SHAPES = {"M": 32, "N": 64}
TRIED = {"block_rows": [2, 4, 8]}


def search(path, **more):
    given = {"shapes": SHAPES, "tried": TRIED, "patience": 120.0, "journal": path}
    return septran.tune("softmax", "dsa-sim", **(given | more))


@pytest.fixture
def forbidden(monkeypatch):
    """No candidate may be run."""

    def ask(*_):
        raise AssertionError("a candidate was run")

    return lambda: monkeypatch.setattr(MeasuringWorker, "ask", ask)


def test_what_was_tried_is_not_run_again(tmp_path, forbidden):
    path = tmp_path / "tried.sqlite"
    first = search(path)
    assert {t.kind for t in first.trials} == {"measured"}
    assert not any(t.recalled for t in first.trials)
    entries = Journal.at(path).entries
    # The three candidates, and the mapping as it is, which is one of them.
    assert {e.point["block_rows"] for e in entries if e.point} <= {2, 4, 8}
    assert all(e.kind == "measured" and e.cycles and not e.host for e in entries)
    forbidden()
    again = search(path)
    assert [t.cycles for t in again.trials] == [t.cycles for t in first.trials]
    assert all(t.recalled for t in again.trials)
    assert "from the journal" in str(again)
    assert again.to_yaml() == first.to_yaml()


def test_entries_of_other_code_are_never_taken(tmp_path, monkeypatch):
    path = tmp_path / "tried.sqlite"
    search(path, tried={"block_rows": [2]})
    monkeypatch.setattr(journals, "code_digest", lambda: "of another version")
    assert not any(t.recalled for t in search(path, tried={"block_rows": [2]}).trials)
    versions = {entry.versions for entry in Journal.at(path).entries}
    assert len(versions) == 2


def test_another_host_measures_anew(monkeypatch):
    program = septran.produce_stages("softmax", "cpu-x86", shapes=SHAPES).tile_program
    simulated = septran.produce_stages("softmax", "dsa-sim", shapes=SHAPES).tile_program
    here = [journals.key_of(p, "", {}, 0) for p in (program, simulated)]
    monkeypatch.setattr(journals, "host_name", lambda: "another processor")
    there = [journals.key_of(p, "", {}, 0) for p in (program, simulated)]
    assert here[0] != there[0]
    # Cycles of a simulator are the same everywhere.
    assert here[1] == there[1]
    assert journals.key_of(program, "", {"eps": 1e-6}, 0) != there[0]


@pytest.mark.parametrize("content", [b"no database at all, but long enough to be one" * 20, None])
def test_another_file_is_refused_and_left_alone(tmp_path, content):
    path = tmp_path / "other.sqlite"
    if content is None:
        with sqlite3.connect(path) as base:
            base.execute("create table mine (a)")
    else:
        path.write_bytes(content)
    before = path.read_bytes()
    with pytest.raises(JournalError, match="journal"):
        search(path)
    assert path.read_bytes() == before


def test_a_journal_is_listed_and_shown(tmp_path):
    path = tmp_path / "tried.sqlite"
    search(path)
    listed = CliRunner().invoke(app, ["journal", str(path)])
    assert listed.exit_code == 0, listed.output
    assert "softmax on dsa-sim: block_rows=4: measured, " in listed.output
    data = json.loads(CliRunner().invoke(app, ["journal", str(path), "--json"]).stdout)
    assert {entry["values"].get("block_rows") for entry in data} >= {2, 8}
    assert CliRunner().invoke(app, ["journal", str(tmp_path / "none")]).exit_code == 1
    table = Journal.at(path).to_pandas()
    assert set(table["block_rows"].dropna()) == {2, 4, 8}
    page = Journal.at(path)._repr_mimebundle_()["text/html"]
    assert "block_rows=2" in page
    assert "median" in page
    assert "predicted and measured times" in page


def test_the_front_is_what_no_other_beats_in_both_times_and_the_picture_has_all():
    points = [
        TimePoint(*times, f"<{n}>") for n, times in enumerate([(1, 9), (2, 3), (3, 4), (4, 1)])
    ]
    assert [p.label for p in front(points)] == ["<0>", "<1>", "<3>"]
    drawn = ElementTree.fromstring(scatter_svg(points, "t", "predicted", "measured"))
    dots = [
        (float(c.get("cx")), float(c.get("cy"))) for c in drawn.iter() if c.tag.endswith("circle")
    ]
    assert len(dots) == 4
    assert all(before[0] < after[0] for before, after in itertools.pairwise(dots))
    by_height = sorted(range(4), key=lambda n: -dots[n][1])
    assert by_height == [3, 1, 2, 0]  # the slowest is the highest


def started(path):
    """A search of many candidates in another process."""
    words = ["tune", "gemm", "--on", "dsa-sim", "-s", "M=128", "-s", "N=128", "-s", "K=128"]
    words += ["--try", "block_M=16,32,64", "--try", "block_N=16,32,64", "--journal", str(path)]
    code = f"from septran.cli import main; import sys; sys.argv[1:] = {words!r}; main()"
    return subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, start_new_session=True
    )


@pytest.mark.slow
def test_a_killed_search_goes_on_where_it_was_and_two_share_a_file(tmp_path):
    path = tmp_path / "tried.sqlite"
    killed = started(path)
    end = time.monotonic() + 120
    while time.monotonic() < end and (not path.exists() or len(Journal.at(path).entries) < 2):
        time.sleep(0.05)
    os.killpg(killed.pid, signal.SIGKILL)
    killed.communicate()
    done = {entry.key: entry for entry in Journal.at(path).entries}
    assert 2 <= len(done) < 10
    both = [started(path), started(path)]
    said = [search.communicate(timeout=300)[0] for search in both]
    assert [search.returncode for search in both] == [0, 0]
    after = {entry.key: entry for entry in Journal.at(path).entries}
    # What the killed search had measured stands as it was written.
    assert all(after[key] == entry for key, entry in done.items())
    assert all("from the journal" in text for text in said)
    assert all("9 measured" in text for text in said)
