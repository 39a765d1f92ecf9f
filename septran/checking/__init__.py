"""Any mapping against the reference: over sizes, types and schedules, with one verdict."""

from septran.checking.cases import check_cases
from septran.checking.running import WAYS, CaseResult
from septran.checking.subject import CheckCase, Subject
from septran.checking.verdict import CheckLimits, MappingVerdict, check_mapping

__all__ = [
    "WAYS",
    "CaseResult",
    "CheckCase",
    "CheckLimits",
    "MappingVerdict",
    "Subject",
    "check_cases",
    "check_mapping",
]  # fmt: skip
