"""Rewrites of TIR, each a pass in a file of its own, and the pipelines that they make.

Begin with :mod:`~tvmconv.tir.pipeline`, the list of passes, and
:mod:`~tvmconv.tir.annotations`, by which schedules ask for them. A pass says in its docstring
which pattern it takes, what it makes of it, and why neither TVM nor LLVM does so. Where files
stand in parentheses, the pass in front of them takes these, too:

- what passes share: ``rewrite``; for schedules: ``axes``, ``whole_reads``;
- border tiles and register tiles: ``specialise`` (``scope``, ``conditions``, ``cuts``,
  ``taps``, ``register_buffers``, ``prefetch_tiles``), ``bound_loops``, ``first_use``, ``tails``,
  ``transposes``, ``stack``, ``lets``;
- prefetches of weights and results: ``prefetch_streams``, ``prefetch_results``;
- narrow integers: ``dot_products`` (``lane_products``, ``scalable_dots``), ``neighbours``,
  ``interleaved_rows``, ``paired_taps``, ``matrix_products`` (``matrix_operands``,
  ``matrix_updates``), ``narrowing`` (``narrowing_arm``, ``fixed_point``), ``lookups``,
  ``paired_stores``, ``wrapping``;
- tiles of bytes: ``tile_calls``, ``tile_registers``, ``tile_pipeline``;
- instructions of 64-bit Arm: ``by_lane``, ``straight``, ``halved_loads`` (``halves``,
  ``ordered_sums``), ``extrema``, ``first_terms``, ``long_indices``;
- its scalable vectors: ``segments`` (``vectors``, ``predicates``, ``scalable``, ``gathers``,
  ``folds``, ``forwarding``, ``woven``), ``vector_code``;
- GPUs, whose pipeline is ``cuda``: ``barriers``, ``mma``, ``guarded_loads``, ``guarded_stores``,
  ``single_values``, ``cuda_extrema``, ``tap_tables`` (``loop_terms``), ``pairs``, ``turns``,
  ``whole_warps`` (``threads``), ``workspace_parameters``;
- functions of operators, before they are scheduled: ``constants_first``, ``intrinsics``; asked for
  by schedules: ``cut_axes``, ``collapse``, ``transposed_loops``;
- repairs of what TVM's passes leave: ``share_lanes``, ``unify_widths``;
- whole functions: ``blocks``, ``bare``, ``workspace``, ``partial``.
"""
