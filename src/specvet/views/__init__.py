"""Views: in come spectra and windows; out come the figures that an expert, and the model, look at.

`full_view` and `zoom_view` make a `View` of a `Spectrum`: lazy, with a hash, a caption and, once looked at, a picture.
`draw` makes PNG bytes of two arrays in the published style; `draw_compact` and `compact_array` make the small drawing
for models. `RenderPool` draws views in processes, with a deadline. Importing this room does not import matplotlib.
"""

from specvet.views.compact import STYLE as COMPACT_STYLE
from specvet.views.compact import compact_array, draw_compact
from specvet.views.exact import draw
from specvet.views.reference import STYLE as REFERENCE_STYLE
from specvet.views.render import RenderError, RenderPool, RenderTimeout
from specvet.views.view import Size, View, check_style, full_view, picture_size, zoom_view

__all__ = [
    "COMPACT_STYLE",
    "REFERENCE_STYLE",
    "RenderError",
    "RenderPool",
    "RenderTimeout",
    "Size",
    "View",
    "check_style",
    "compact_array",
    "draw",
    "draw_compact",
    "full_view",
    "picture_size",
    "zoom_view",
]
