"""Single changes of a mapping as lines of the report, and the whole report as data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from septran.format_units import time_text
from septran.mapping.resolved import ResolvedMapping
from septran.tuning.changes import MappingPlace, Proposal, Proposals, places
from septran.views.text.plain import plain

if TYPE_CHECKING:
    from septran.views.explanation import Explanation

LISTED = 16
"""The number of changes that the text lists."""
SAME = 5e-3
"""The change of a share up to which it is called none."""


def proposal_lines(proposals: Proposals) -> Iterator[str]:
    """Yield the best changes as rules to try, each of which was compiled."""
    now = time_text(proposals.seconds)
    ran = f", {_cost(proposals.cost, proposals.unit)} measured" if proposals.cost else ""
    yield f"Rules to try, one at a time; each compiles (now {now} predicted{ran})"
    for proposal in proposals.found[:LISTED]:
        yield f"  try {proposal.change.rule}: {_gain(proposal)}"
    if not proposals.found:
        yield "  none: no single change compiles to another program"
    more = len(proposals.found) - LISTED
    words = [f"{more} more compile"] if more > 0 else []
    words += [f"{proposals.refused} do not compile", f"{proposals.same} change nothing"]
    words += [f"{proposals.left} not tried: no time"] if proposals.left else []
    late = sum(proposal.measured is None for proposal in proposals.found) if proposals.cost else 0
    words += [f"{late} not run: no time, or no code"] if late else []
    yield f"  {', '.join(words)}"


def place_lines(mapping: ResolvedMapping) -> Iterator[str]:
    """Yield each place of the mapping with its legal values."""
    yield "Legal values at each place (now first)"
    for place in places(mapping):
        yield f"  {_name(place)}: {place.now}; {', '.join(map(str, place.values))}"


def report_data(explanation: Explanation, proposals: Proposals) -> dict[str, Any]:
    """Return the report as data: what limits, what is legal at each place, what to try."""
    prediction, tree = explanation.prediction, explanation.task_tree
    bound, schedule = prediction.bound, prediction.schedule
    return {
        "name": tree.name, "machine": explanation.mapping.machine.name, "dims": dict(tree.dims),
        "limited_by": plain(prediction.bound_by), "seconds": prediction.seconds,
        "limits": [plain(limit) for limit in prediction.limits],
        "bound": None if bound is None else bound.to_dict(),
        "schedule": None if schedule is None else schedule.to_dict(),
        "remarks": plain(explanation.remarks), "notes": list(prediction.notes),
        "places": [place.to_dict() for place in places(explanation.mapping)],
        "proposals": proposals.to_dict(),
    }  # fmt: skip


def _gain(proposal: Proposal) -> str:
    predicted = proposal.predicted - 1
    words = f"predicted {predicted:+.1%}" if abs(predicted) >= SAME else "predicted the same"
    return words if proposal.measured is None else f"measured {proposal.measured - 1:+.1%}, {words}"


def _cost(cost: float, unit: str) -> str:
    return f"{cost:,.0f} cycles" if unit == "cycles" else time_text(cost)


def _name(place: MappingPlace) -> str:
    return f"{place.task} {place.key}" + (f".{place.entry}" if place.entry else "")
