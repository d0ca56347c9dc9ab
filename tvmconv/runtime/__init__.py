"""Compiled modules: run, save, load, profile.

``module`` is what users hold, ``artifact`` the saved pair of files with its ``manifest``,
``library`` and ``link`` the shared object, ``runner`` and ``threads`` the calls, ``engine`` the
one door to TVM's runtime. Nothing here imports TVM's compiler, except ``link``, ``packing``,
``record`` and ``features``, which describe and link what was just compiled.
"""
