"""Random programs: logic, mapping, machine and shapes together, checked against float64."""

from septran.fuzz.campaign import Campaign, CampaignSettings, CaseOutcome, run_campaign, run_case
from septran.fuzz.cases import RandomCase, make_case
from septran.fuzz.choices import Choices, simpler
from septran.fuzz.executors import ExecutorOptions
from septran.fuzz.renaming import Renamed, renamed

__all__ = [
    "Campaign",
    "CampaignSettings",
    "CaseOutcome",
    "Choices",
    "ExecutorOptions",
    "RandomCase",
    "Renamed",
    "make_case",
    "renamed",
    "run_campaign",
    "run_case",
    "simpler",
]  # fmt: skip
