"""Tensor expressions of the operators that are not convolutions.

Every function takes ``te.Tensor`` arguments first and plain Python attributes after them, so
that it can be given to ``relax.BlockBuilder.call_te``. *Blocked* tensors have the layout
``(N, CB, H, W, c)`` with ``c`` channels in a block; the lanes of the last block that hold no
channel may have any finite value.
"""
