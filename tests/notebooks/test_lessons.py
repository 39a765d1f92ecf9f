"""Every lesson: its start fails, its solution passes, and verdicts say why."""

from __future__ import annotations

import pytest

from septran.lessons import NoSuchLessonError, lesson, names


@pytest.mark.parametrize("name", names())
def test_the_start_fails_with_a_hint(name):
    verdict = lesson(name).check(lesson(name).start)
    assert not verdict.passed
    assert verdict.error or any(hint for _, reached, _, hint in verdict.graded if not reached)


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
