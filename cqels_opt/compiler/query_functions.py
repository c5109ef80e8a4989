"""The functions of users that a query calls: those that its IRIs had when it was registered.

A process may register several functions under one IRI, one after the other. Calls of a query have the version of theirs, so the query keeps
it in each program that is compiled for it, in all processes.
"""

from __future__ import annotations

from dataclasses import replace

from cqels_opt.compiler.passes.traversal import map_calls
from cqels_opt.query import algebra as a
from cqels_opt.query.extensions import Extension, extension, registered_functions
from cqels_opt.query.functions import check_call


def with_versions(body: a.Algebra) -> a.Algebra:
    """The body with the version of the newest function in each call of a user's function; QueryError if it takes other arguments."""

    def versioned(call: a.Call) -> a.Call:
        found = extension(call.function)
        if found is None or not found.version:
            return call
        check_call(call)
        return replace(call, version=found.version)

    made: a.Algebra = map_calls(versioned, body) if registered_functions() else body
    return made


def called_functions(body: a.Algebra) -> tuple[Extension, ...]:
    """The functions of users that a body calls."""
    found: dict[tuple[str, int], Extension] = {}

    def noted(call: a.Call) -> a.Call:
        function = extension(call.function, call.version)
        if function is not None and function.version:
            found[function.name, function.version] = function
        return call

    map_calls(noted, body)
    return tuple(found.values())
