"""Gateways from MQTT, WebSocket and Server-Sent Events to a live folder, which a run reads like any other. See :func:`gateway`."""

from cqels_opt.gateway.folder import LiveFolder
from cqels_opt.gateway.pump import GatewayCounts, gateway
from cqels_opt.gateway.sources import Source, make_source

__all__ = ["GatewayCounts", "LiveFolder", "Source", "gateway", "make_source"]
