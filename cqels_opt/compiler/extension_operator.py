"""``SERVICE <iri> { … }``: the operator that another package adds through its entry points (docs/extending.md)."""

from __future__ import annotations

from urllib.parse import parse_qsl

from cqels_opt import plugins
from cqels_opt.errors import InputError, named
from cqels_opt.operators.algebra.operator import Operator
from cqels_opt.query.algebra import Service


def extension_operator(service: Service, inner: Operator, variables: tuple[str, ...]) -> Operator:
    """The operator of a SERVICE over an input whose rows have some variables. InputError where its parameters are wrong."""
    factory = plugins.load("operators", service.name)
    try:
        parameters = dict(parse_qsl(service.parameters, keep_blank_values=True, strict_parsing=bool(service.parameters)))
        operator = factory(inner, variables, **parameters)
    except Exception as error:
        why = str(error) if isinstance(error, TypeError | ValueError) else named(error)
        raise InputError(
            f"the operator {service.name} cannot be made with the parameters {service.parameters!r}: {why}"
        ) from error
    if not isinstance(operator, Operator):
        raise InputError(
            f"the entry point {service.name!r} of cqels_opt.operators makes a {type(operator).__name__}, not an Operator"
        )
    return operator
