"""Boxes, texts, lines and arrows of a figure as SVG, in a light and in a dark palette."""

from __future__ import annotations

from dataclasses import dataclass, field
from xml.sax.saxutils import escape


@dataclass(frozen=True)
class Palette:
    """Colors of a figure; the series are distinguishable without color vision (Okabe and Ito)."""

    name: str
    ink: str
    muted: str
    line: str
    fill: str
    series: tuple[str, ...]


LIGHT = Palette(
    "light",
    "#1f2328",
    "#59636e",
    "#8c959f",
    "#f3f5f8",
    ("#0072b2", "#b9c2cc", "#d55e00", "#009e73"),
)
DARK = Palette(
    "dark", "#e6edf3", "#9198a1", "#7d8590", "#21262d", ("#56b4e9", "#4d5763", "#e69f00", "#2fbf96")
)


@dataclass
class Figure:
    """An SVG of a fixed size in pixels; parts are drawn in the order of the calls."""

    width: int
    height: int
    palette: Palette
    title: str
    parts: list[str] = field(default_factory=list)

    def box(
        self, x: float, y: float, width: float, height: float, fill: str = "", line: str = ""
    ) -> None:
        """Draw a box; its corners are round, its fill and line by default the palette's."""
        radius = min(3, width / 5)
        style = f'fill="{fill or self.palette.fill}" stroke="{line or self.palette.line}"'
        self.parts.append(
            f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}"'
            f' rx="{radius:g}" {style}/>'
        )

    def text(
        self, x: float, y: float, text: str, *, size: int = 13, anchor: str = "start",
        color: str = "", bold: bool = False,
    ) -> None:  # fmt: skip
        """Write a line of text with its baseline at ``y``; the anchor is start, middle or end."""
        weight = ' font-weight="600"' if bold else ""
        self.parts.append(
            f'<text x="{x:g}" y="{y:g}" font-size="{size}" text-anchor="{anchor}"'
            f' fill="{color or self.palette.ink}"{weight}>{escape(text)}</text>'
        )

    def line(self, x: float, y: float, to_x: float, to_y: float, *, arrow: bool = False) -> None:
        """Draw a line, with a head at its end if it is an arrow."""
        head = ' marker-end="url(#head)"' if arrow else ""
        self.parts.append(
            f'<path d="M{x:g} {y:g} L{to_x:g} {to_y:g}" stroke="{self.palette.line}"'
            f' stroke-width="1.5" fill="none"{head}/>'
        )

    def curve(self, points: list[tuple[float, float]], color: str) -> None:
        """Draw straight lines from point to point."""
        path = " L".join(f"{x:g} {y:g}" for x, y in points)
        self.parts.append(f'<path d="M{path}" stroke="{color}" stroke-width="2" fill="none"/>')

    def dot(self, x: float, y: float, color: str, name: str = "") -> None:
        """Draw a dot; its name appears when the pointer is over it."""
        title = f"<title>{escape(name)}</title>" if name else ""
        self.parts.append(f'<circle cx="{x:g}" cy="{y:g}" r="4" fill="{color}">{title}</circle>')

    def render(self) -> str:
        """Return the whole SVG."""
        head = (
            '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7"'
            ' markerHeight="7" orient="auto"><path d="M0 0 L8 4 L0 8 z"'
            f' fill="{self.palette.line}"/></marker></defs>'
        )
        start = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}"'
            f' width="{self.width}" height="{self.height}" role="img"'
            ' font-family="system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif">'
        )
        body = [start, f"<title>{escape(self.title)}</title>", head, *self.parts, "</svg>"]
        return "\n".join(body) + "\n"
