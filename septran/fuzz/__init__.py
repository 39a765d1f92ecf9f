"""Random programs: logic, mapping and shapes together, checked against float64."""

from septran.fuzz.campaign import Campaign, Outcome, run_campaign, run_case
from septran.fuzz.cases import Case, make_case

__all__ = ["Campaign", "Case", "Outcome", "make_case", "run_campaign", "run_case"]
