"""What the commands say on standard error of what they passed over, a line each."""

from __future__ import annotations

from rich.console import Console


def warn(message: str) -> None:
    """One warning."""
    Console(stderr=True, soft_wrap=True, highlight=False, markup=False).print(f"warning: {message}")
