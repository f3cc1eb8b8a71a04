"""Holdfast: a publish/subscribe broker network in which every message picks its own delivery guarantee."""

__version__ = "0.1.0"
