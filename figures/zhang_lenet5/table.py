from figures.lib.stale_weights import tables

__all__ = ["tables"]
