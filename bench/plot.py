"""The curves of `growth` as a drawing, the same bytes for the same figures."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from bench.growth import Series

_INCHES = (7.2, 4.4)
_MARKERS = "os^D"
_SETTINGS = {"svg.hashsalt": "indextables", "svg.fonttype": "none", "font.family": "sans-serif", "font.size": 11}


def draw(series: Series, path: Path) -> None:
    """Write the curves as SVG, both axes logarithmic."""
    with mpl.rc_context(_SETTINGS):
        figure = Figure(figsize=_INCHES, layout="constrained")
        axes = figure.add_subplot()
        for (work, times), marker in zip(series.items(), _MARKERS, strict=False):
            axes.plot(list(times), list(times.values()), marker=marker, label=work)
        axes.set(xscale="log", yscale="log", xlabel="files in the table", ylabel="milliseconds (median)")
        axes.grid(visible=True, which="major", alpha=0.4)
        axes.legend(frameon=False)
        FigureCanvasSVG(figure).print_svg(str(path), metadata={"Date": None, "Creator": None})
