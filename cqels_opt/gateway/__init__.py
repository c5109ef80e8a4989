"""Gateways: MQTT, WebSocket and Server-Sent Events into a live folder, which a run follows like any other. See :func:`gateway`."""

from cqels_opt.gateway.folder import LiveFolder
from cqels_opt.gateway.pump import Told, gateway
from cqels_opt.gateway.sources import Source, make_source

__all__ = ["LiveFolder", "Source", "Told", "gateway", "make_source"]
