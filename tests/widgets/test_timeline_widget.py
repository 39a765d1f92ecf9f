"""The timeline's Python side, without a browser."""

from __future__ import annotations

import pytest

from septran.views import live
from septran.views.timelines.timeline import Timeline, TimelineRecord

pytest.importorskip("anywidget")

RUN = Timeline("run", "us", 2.0, (TimelineRecord("in", 0, 2, "in", "copy A"),))


def test_exploring_gives_a_widget_with_the_data_and_a_static_stand_in():
    view = RUN.explore()
    assert view.data["timelines"][0]["title"] == "run"
    assert "<img" in view.static
    assert view.static_token.startswith("septran-static-")


def test_a_missing_package_is_named(monkeypatch):
    def without(name):
        raise ModuleNotFoundError(f"No module named {name!r}", name="anywidget")

    monkeypatch.setattr(live.importlib, "import_module", without)
    with pytest.raises(live.NotebookMissingError, match="anywidget") as caught:
        live.widgets("views")
    assert caught.value.hint == 'pip install "septran[notebook]"'


def test_what_has_no_view_says_so():
    with pytest.raises(live.NothingToExploreError, match="int has no interactive view"):
        live.explore(1)


def test_asking_for_another_element_shows_that_one():
    import septran

    journey = septran.explain("gemm", "dsa-sim", shapes={"M": 64, "N": 64, "K": 64}).follow(
        "C", 1, 2
    )
    view = journey.explore()
    view.asked = {"tensor": "A", "at": [3, 4]}
    assert view.data == journey.__class__.to_dict(_followed(journey.program))
    view.asked = {"tensor": "A", "at": [64, 0]}
    assert "no element [64, 0]" in view.error
    view.asked = {"tensor": "A"}
    assert view.error


def _followed(program):
    from septran.views.maps.element import follow

    return follow(program, "A", (3, 4))
