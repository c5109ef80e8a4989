"""The keywords of ``start``, and signatures that show keywords to ``help()`` and to completion."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import Parameter, signature
from typing import Literal, TypedDict, TypeVar, cast

from cqels_opt.query.mistakes import nearest
from cqels_opt.runtime.limits import Limits
from cqels_opt.trace.listener import ListenerLike

F = TypeVar("F", bound=Callable[..., object])


class StartOptions(TypedDict, total=False):
    """The keywords of ``Engine.start`` and ``CompiledQuery.start``."""

    plan: str
    """``adaptive``, ``first``, ``static`` or ``worst``, or ``fixed:`` and plans."""
    filters: str
    """Where filters are evaluated: ``cost``, ``early``, ``late`` or a heuristic (docs/uncertainty.md)."""
    lateness: int | str
    """How far an element may be behind the latest time before it: a duration such as ``"10s"``, or milliseconds."""
    order: str | None
    """The column that orders elements; without it an element is late if it is not after the frontier of the batch before."""
    eager: bool
    """Answers for the latest time at each trigger, for a source whose batches never split an instant."""
    idle_timeout: int | str | None
    """The wall clock time after which the run stops waiting for an idle stream."""
    max_ahead: int | str | None
    """Elements further ahead of the latest time before them are rejected (docs/semantics.md)."""
    on_error: Literal["fail", "skip"]
    """Whether a bad element ends the run, or is counted and kept with its reason."""
    trigger: str | None
    """Spark's processing time trigger, such as ``"10 seconds"``."""
    to_the_end: bool
    """The run ends after the current input; otherwise it follows its sources."""
    continue_changed: bool
    """The queries may differ from those of the checkpoint (docs/checkpoints.md)."""
    limits: Limits
    """Per query: a query that exceeds one ends, see ``StreamRun.failures``, and the others continue."""
    listener: ListenerLike | None
    """A function of each batch's trace record, a :class:`Listener`, or a list of these."""


def keywords_of(options: type, function: Callable[..., object]) -> Callable[[F], F]:
    """For a function with ``**keywords: Unpack[Options]``: its signature shows the keywords, with the defaults of ``function``.

    It refuses an unknown one with a TypeError that names the function that was called, and passes the others to ``function``.
    """
    known = signature(function).parameters
    names = [name for name in options.__annotations__ if name in known]
    shown = [known[name].replace(kind=Parameter.KEYWORD_ONLY, default=_default(known[name])) for name in names]

    def decorate(decorated: F) -> F:
        own = signature(decorated)
        kept = [one for one in own.parameters.values() if one.kind is not Parameter.VAR_KEYWORD]
        accepted = {one.name for one in (*kept, *shown)}

        @wraps(decorated)
        def called(*given: object, **named: object) -> object:
            if unknown := next((name for name in named if name not in accepted), None):
                raise TypeError(
                    f"{decorated.__qualname__}() got an unexpected keyword argument {unknown!r}{nearest(unknown, accepted)}"
                )
            return decorated(*given, **named)

        called.__signature__ = own.replace(parameters=[*kept, *shown])  # type: ignore[attr-defined]
        return cast("F", called)

    return decorate


def _default(parameter: Parameter) -> object:
    return None if parameter.default is Parameter.empty else parameter.default
