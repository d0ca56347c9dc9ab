"""Small tools for passes that rewrite statements."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

# localities of LLVM's prefetch
TO_L1, TO_L2 = 3, 2


def replace_marked(func: Any, rules: Mapping[str, Callable[[Any, Any], Any]]) -> Any:
    """Work off the annotations that schedules put on loops.

    Parameters
    ----------
    func
        ``tirx.PrimFunc``.
    rules
        Annotation -> what makes a statement of a loop, given without the annotation, and of the
        annotation's value. Inner loops come first; of several annotations of one loop the first
        rule's counts.

    Returns
    -------
    tirx.PrimFunc
        ``func`` itself where no loop carries any of these annotations.
    """
    import tvm_ffi
    from tvm import tirx

    found = False

    def look(loop: Any) -> Any:
        nonlocal found
        for mark, rule in rules.items():
            if mark in loop.annotations:
                found = True
                kept = {key: value for key, value in loop.annotations.items() if key != mark}
                return rule(rebuilt(loop, annotations=kept), loop.annotations[mark])
        return loop

    body = tvm_ffi.structural_map(func.body, (tirx.For, look))
    return func.with_body(body) if found else func


def rebuilt(loop: Any, **parts: Any) -> Any:
    """A loop with some of its parts (``extent``, ``kind``, ``body``, ``annotations``) replaced."""
    from tvm import tirx

    names = ("extent", "kind", "body", "annotations")
    given = {name: parts.get(name, getattr(loop, name)) for name in names}
    return tirx.For(loop.loop_var, loop.min, **given)


def substitute(node: Any, values: Mapping[Any, Any]) -> Any:
    """A statement or expression with variables replaced, by expressions or by constants."""
    import tvm_ffi
    from tvm import ir, tirx

    table = {
        var: tirx.IntImm(str(var.ty.dtype), value) if isinstance(value, int) else value
        for var, value in values.items()
    }
    return tvm_ffi.structural_map(node, (ir.Var, lambda var: table.get(var, var)))


def variables(expression: Any) -> list[Any]:
    """The variables of an expression, with repetitions."""
    import tvm_ffi
    from tvm import ir

    found: list[Any] = []
    tvm_ffi.structural_walk(expression, (ir.Var, found.append))
    return found


def uses(expression: Any, var: Any) -> bool:
    """Whether a variable stands in an expression."""
    return any(found.same_as(var) for found in variables(expression))


def prefetch(load: Any, locality: int, *, write: bool = False) -> Any:
    """The statement that asks for the cache line of a ``BufferLoad``."""
    from tvm import tirx

    call = tirx.call_intrin("void", "tirx.prefetch", tirx.address_of(load), int(write), locality, 1)
    return tirx.Evaluate(call)
