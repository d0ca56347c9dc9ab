"""The static execution plan of a network: kernel calls, constants and memory."""
