"""The rules for operators other than convolutions, in the order in which they are tried.

Each is the function ``rule`` of a file of that name, in the family's folder or else in this one.
"""

from __future__ import annotations

RULES = (
    "pool",
    "pixel_conv",
    "lanes",
    "lrn",
    "reorder",
    "rows",
    "columns",
    "byte_products",
    "matmul",
    "short_rows",
    "transpose",
    "elementwise",
    "reduction",
)
