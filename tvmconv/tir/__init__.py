"""Rewrites of TIR, each a pass in a file of its own, and the pipeline that they make.

Begin with :mod:`~tvmconv.tir.pipeline`, the list of passes, and
:mod:`~tvmconv.tir.annotations`, by which schedules ask for them. A pass says in its docstring
which pattern it takes, what it makes of it, and why neither TVM nor LLVM does so.
``specialise`` is the one that takes several files: ``scope`` and ``conditions`` (what is known of
predicates), ``taps``, ``register_buffers`` and ``prefetch_tiles``. ``axes`` is an analysis for
schedules, and ``rewrite`` what the passes share.
"""
