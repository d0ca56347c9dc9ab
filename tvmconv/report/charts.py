"""Charts of reports as inline SVG, drawn by pygal without scripts or links."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from tvmconv.core.errors import TvmconvError
from tvmconv.core.printed import printable

# (x, y) of one series, with a name for the tooltip
Points = Sequence[tuple[float, float, str]]
# distinguishable on white and black without color vision (Okabe and Ito)
_COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
_ROW_PIXELS = 34


def require_charts() -> Any:
    """The package pygal; raises :class:`TvmconvError` if it is not installed."""
    try:
        import pygal
    except ImportError:
        raise TvmconvError(
            "charts require the package pygal. Install it by: pip install 'tvmconv[html]'"
        ) from None
    return pygal


def bars(
    names: Sequence[str], series: Mapping[str, Sequence[float | None]], *, title: str, unit: str
) -> str:
    """Horizontal bars, one group for each name, top to bottom."""
    chart = _chart("HorizontalBar", title, y_title="", x_title=unit)
    chart.height = 130 + _ROW_PIXELS * max(len(names), 4)
    # pygal draws the first name at the bottom
    chart.x_labels = [printable(name) for name in reversed(names)]
    for label, values in series.items():
        chart.add(label, list(reversed(values)))
    return _svg(chart)


def scatter(
    dots: Mapping[str, Points],
    lines: Mapping[str, Points],
    *,
    title: str,
    x: str,
    y: str,
    logarithmic: tuple[bool, bool] = (False, False),
) -> str:
    """Dots and lines over two axes, either of which may be logarithmic."""
    chart = _chart("XY", title, x_title=x, y_title=y)
    log_x, log_y = logarithmic
    chart.x_value_formatter = _power if log_x else _plain
    chart.value_formatter = _power if log_y else _plain
    for label, points in dots.items():
        chart.add(label, _placed(points, log_x, log_y), stroke=False)
    for label, points in lines.items():
        chart.add(label, _placed(points, log_x, log_y), stroke=True, show_dots=len(points) < 3)
    return _svg(chart)


def categories(
    names: Sequence[str],
    series: Mapping[str, Sequence[float | None]],
    *,
    title: str,
    x: str,
    y: str,
) -> str:
    """Dots over named positions with a logarithmic vertical axis."""
    chart = _chart("Line", title, x_title=x, y_title=y)
    chart.value_formatter = _power
    chart.x_labels = [printable(name) for name in names]
    chart.x_label_rotation = 35
    for label, values in series.items():
        drawn = [None if v is None or v <= 0 else math.log10(v) for v in values]
        is_constant = len(set(values)) == 1 and len(values) > 1
        chart.add(label, drawn, stroke=is_constant, show_dots=not is_constant)
    return _svg(chart)


def _placed(points: Points, log_x: bool, log_y: bool) -> list[dict[str, Any]]:
    return [
        {
            "value": (math.log10(x) if log_x else x, math.log10(y) if log_y else y),
            "label": printable(label),
        }
        for x, y, label in points
        if (x > 0 or not log_x) and (y > 0 or not log_y)
    ]


def _plain(value: Any) -> str:
    if isinstance(value, tuple | list):
        return ", ".join(map(_plain, value))
    return f"{value:.4g}"


def _power(value: Any) -> str:
    if isinstance(value, tuple | list):
        return ", ".join(map(_power, value))
    return f"{10**value:.3g}"


def _chart(kind: str, title: str, **options: Any) -> Any:
    pygal = require_charts()
    style = pygal.style.Style(
        # the page sets these variables for light and dark mode
        background="var(--paper, #fff)",
        plot_background="var(--paper, #fff)",
        foreground="var(--ink, #222)",
        foreground_strong="var(--strong, #000)",
        foreground_subtle="var(--faint, #666)",
        guide_stroke_color="var(--faint, #666)",
        major_guide_stroke_color="var(--faint, #666)",
        colors=_COLORS,
        font_family="sans-serif",
        title_font_size=18,
        label_font_size=12,
        legend_font_size=13,
        opacity=".85",
    )
    return getattr(pygal, kind)(
        style=style,
        title=title,
        js=[],
        width=960,
        height=440,
        legend_at_bottom=True,
        truncate_legend=-1,
        stroke_style={"width": 3},
        disable_xml_declaration=True,
        explicit_size=False,
        **options,
    )


def _svg(chart: Any) -> str:
    """The drawing, with values as the browser's own tooltips instead of a script."""
    chart.legend_at_bottom_columns = len(chart.raw_series) or 1
    text = str(chart.render(is_unicode=True))
    text = re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL)
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    text = re.sub(r'<desc class="(?:value|label)">(.*?)</desc>', r"<title>\1</title>", text)
    return re.sub(r'<desc class="[^"]*">.*?</desc>', "", text)
