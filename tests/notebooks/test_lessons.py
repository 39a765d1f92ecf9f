"""Every lesson: its start fails, its solution passes, and verdicts say why."""

from __future__ import annotations

import pytest

from septran.lessons import NoSuchLessonError, Verdict, lesson, names
from septran.lessons.language import in_chinese


@pytest.fixture(autouse=True)
def english(monkeypatch):
    monkeypatch.setenv("SEPTRAN_LANGUAGE", "en")


def _words(name):
    exercise = lesson(name)
    yield from (exercise.title, exercise.story)
    for goal in exercise.goals:
        yield from (goal.text, goal.hint)


@pytest.mark.parametrize("name", names())
def test_it_speaks_chinese_where_the_reader_does(name, monkeypatch):
    missing = [words for words in _words(name) if words and in_chinese(words) == words]
    assert missing == []
    monkeypatch.setenv("SEPTRAN_LANGUAGE", "zh_CN.UTF-8")
    exercise = lesson(name)
    shown = exercise._repr_mimebundle_()
    for form in ("text/plain", "text/html"):
        assert in_chinese(exercise.title) in shown[form]
        assert exercise.story not in shown[form]
    graded = (("at most 100 cycles", False, "120 cycles", "keep `pipeline: 2`"),)
    told = str(Verdict(exercise.title, (), graded, ""))
    assert "最多 100 个周期" in told
    assert "1 个目标中还有 1 个没有达到" in told


@pytest.mark.one_in(10)
@pytest.mark.parametrize("name", names())
def test_the_start_fails_with_a_hint(name):
    verdict = lesson(name).check(lesson(name).start)
    assert not verdict.passed
    assert verdict.error or any(hint for _, reached, _, hint in verdict.graded if not reached)


@pytest.mark.one_in(4, first=1)
@pytest.mark.parametrize("name", names())
def test_the_solution_passes(name):
    verdict = lesson(name).check(lesson(name).solution)
    assert verdict.passed, str(verdict)


@pytest.mark.parametrize("name", names())
def test_it_shows_itself(name):
    exercise = lesson(name)
    shown = exercise._repr_mimebundle_()
    assert exercise.title in shown["text/plain"]
    assert all(goal.text in shown["text/plain"] for goal in exercise.goals)
    assert "<script" not in shown["text/html"]


def test_a_lesson_that_is_not_there_names_the_nearest():
    with pytest.raises(NoSuchLessonError, match="overlap_copies"):
        lesson("overlap_copy")


def test_a_mistake_is_part_of_the_verdict():
    exercise = lesson("overlap_copies")
    verdict = exercise.check(exercise.start.replace("SPM", "SMP"))
    assert not verdict.passed
    assert "did you mean 'SPM'?" in verdict.error
    assert "does not compile" in str(verdict)
    assert "did you mean" in verdict._repr_mimebundle_()["text/html"]


def test_another_machine_is_no_repair():
    exercise = lesson("overlap_copies")
    verdict = exercise.check("cpu-x86")
    assert not verdict.passed
    assert "this lesson is about dsa-sim, not cpu-x86" in verdict.error


def test_a_verdict_tells_each_goal():
    exercise = lesson("overlap_copies")
    verdict = exercise.check(exercise.start)
    assert [text for text, *_ in verdict.graded] == [goal.text for goal in exercise.goals]
    assert "travel behind computation: 0% hidden" in str(verdict)
    assert "not yet" in verdict._repr_mimebundle_()["text/html"]
