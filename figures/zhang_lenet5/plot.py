from figures.lib.stale_weights import draw

__all__ = ["draw"]
