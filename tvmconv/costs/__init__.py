"""Cost models: cycles of a config, from a machine's rates."""
