"""Winograd convolution: tiles, transform matrices, polyphase decomposition, exact integers."""
