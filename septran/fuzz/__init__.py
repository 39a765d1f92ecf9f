"""Random programs: logic, mapping, machine and shapes together, checked against float64."""

from septran.fuzz.campaign import Campaign, CaseOutcome, Settings, run_campaign, run_case
from septran.fuzz.cases import RandomCase, make_case
from septran.fuzz.choices import Choices, simpler
from septran.fuzz.executors import Ways
from septran.fuzz.renaming import Renamed, renamed

__all__ = [
    "Campaign",
    "CaseOutcome",
    "Choices",
    "RandomCase",
    "Renamed",
    "Settings",
    "Ways",
    "make_case",
    "renamed",
    "run_campaign",
    "run_case",
    "simpler",
]  # fmt: skip
