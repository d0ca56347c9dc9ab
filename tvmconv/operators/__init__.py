"""Tensor expressions of the operators that are not convolutions.

Every function takes ``te.Tensor`` arguments first and plain Python attributes after them, so that
``relax.BlockBuilder.call_te`` can call it. *Blocked* tensors have the layout ``(N, CB, H, W, c)``
with ``c`` channels in a block. Lanes of the last block without a channel may have any finite value.
"""
