"""Table 3.1 of the quantised Winograd source, offline."""
