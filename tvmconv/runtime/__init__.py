"""Compiled models at run time: opened, called, timed, profiled. Needs numpy and nothing of TVM.

``library`` holds a model's file, ``binding`` speaks its C interface, ``executable`` is what users
call; the C side of the interface is in ``c``.
"""
