"""Probability distributions as literals and the functions on them (RSP-QL* with uncertainty, Keskisärkkä et al. 2021, §3.1)."""

from cqels_opt.query.uncertainty.families import register_distribution
from cqels_opt.query.uncertainty.functions import install

__all__ = ["install", "register_distribution"]
