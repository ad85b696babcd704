"""Views: in come spectra and windows; out come the figures that an expert, and the model, look at.

`draw` makes PNG bytes of two arrays. `full_view` and `zoom_view` make a `View` of a `Spectrum`: lazy, with a hash, a
caption and, once looked at, a picture. `RenderPool` draws views in processes, with a deadline. Importing this room
does not import matplotlib.
"""

from specvet.views.reference import draw
from specvet.views.render import RenderError, RenderPool, RenderTimeout
from specvet.views.view import View, full_view, zoom_view

__all__ = ["RenderError", "RenderPool", "RenderTimeout", "View", "draw", "full_view", "zoom_view"]
