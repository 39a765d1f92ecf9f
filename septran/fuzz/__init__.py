"""Random programs: logic, mapping, machine and shapes together, checked against float64."""

from septran.fuzz.campaign import Campaign, Outcome, Settings, run_campaign, run_case
from septran.fuzz.cases import Case, make_case
from septran.fuzz.choices import Choices, simpler
from septran.fuzz.executors import Ways
from septran.fuzz.renaming import Renamed, renamed

__all__ = [
    "Campaign", "Case", "Choices", "Outcome", "Renamed", "Settings", "Ways", "make_case",
    "renamed", "run_campaign", "run_case", "simpler",
]  # fmt: skip
