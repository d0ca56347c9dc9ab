"""A program and its nested programs as C functions, one line for each call."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tvmconv.compile.c_text import Strings, comment, whole
from tvmconv.program.program import Branch, Call, Loop, Operand, Place, Program

_MACROS = {
    Place.INPUT: "TVMCONV_IN",
    Place.OUTPUT: "TVMCONV_OUT",
    Place.ARENA: "TVMCONV_MEM",
    Place.CONSTANT: "TVMCONV_CONST",
}


def functions(program: Program, on_gpu: bool, strings: Strings, prefix: str = "") -> list[str]:
    """The function ``run`` of a program, after the functions that it calls.

    ``prefix`` tells apart the functions of several programs. A program for any batch has a function
    ``step`` as well, which makes one call, and a table ``heavy`` for :func:`is_heavy`.
    """
    writer = _Functions(on_gpu, strings, prefix)
    if not any(info.batched for info in program.inputs):
        return list(writer.lines("run", program, 0))
    heavy = ", ".join(str(int(is_heavy(call))) for call in program.calls) or "0"
    return [*writer.steps(program), f"static const uint8_t {prefix}heavy[] = {{{heavy}}};", ""]


def is_heavy(call: Call) -> bool:
    """Whether a call reads more bytes of constants than it reads and writes of other tensors."""
    constants = [each.bytes for each in call.operands if each.place is Place.CONSTANT]
    return 2 * sum(constants) > sum(operand.bytes for operand in call.operands)


class _Functions:
    """Functions are named after the number of their first layer."""

    def __init__(self, on_gpu: bool, strings: Strings, prefix: str) -> None:
        self._on_gpu, self._strings, self._prefix = on_gpu, strings, prefix

    def lines(self, name: str, program: Program, first: int) -> Iterator[str]:
        """The functions of nested programs, then the program's own."""
        body = []
        for index, call in self._numbered(program, first):
            body += [f"    {line}" for line in (self._call(index, call), *self._check(index, call))]
            yield from self._nested(index, call)
        yield f"static int32_t {self._prefix}{name}(tvmconv_frame *frame) {{"
        yield from body or ["    (void)frame;"]
        yield "    return 0;"
        yield "}"
        yield ""

    def steps(self, program: Program) -> Iterator[str]:
        """A function for one call of a program, and ``run``, which makes all calls."""
        body = []
        for step, (index, call) in enumerate(self._numbered(program, 0)):
            lines = (self._call(index, call), *self._check(index, call), "return 0;")
            body += [f"    case {step}:", *(f"        {line}" for line in lines)]
            yield from self._nested(index, call)
        yield f"static int32_t {self._prefix}step(tvmconv_frame *frame, int32_t index) {{"
        yield from ("    (void)frame;", "    switch (index) {")
        yield from (*body, "    }", "    return 0;", "}", "")
        yield f"static int32_t {self._prefix}run(tvmconv_frame *frame) {{"
        yield "    int32_t status = 0;"
        yield f"    for (int32_t i = 0; i < {len(program.calls)} && !status; ++i)"
        yield f"        status = {self._prefix}step(frame, i);"
        yield from ("    return status;", "}", "")

    def _numbered(self, program: Program, first: int) -> Iterator[tuple[int, Call]]:
        """Calls with the numbers of their layers."""
        for call in program.calls:
            yield first, call
            nested = call.nested.programs if call.nested else ()
            first += 1 + sum(1 for each in nested for _ in each.all_calls())

    def _nested(self, index: int, call: Call) -> Iterator[str]:
        """The functions that a call of nested programs uses."""
        inner = index + 1
        for nested in call.nested.programs if call.nested else ():
            yield from self.lines(f"run_{inner}", nested, inner)
            inner += sum(1 for _ in nested.all_calls())
        if isinstance(call.nested, Loop):
            yield from _loop(self._prefix, index, call, call.nested)

    def _call(self, index: int, call: Call) -> str:
        record = call.record
        name = record.layer or record.operator
        said = comment(
            name, record.workload or record.operator * bool(record.layer), call.algorithm
        )
        if isinstance(call.nested, Branch):
            branch = _branch(f"{self._prefix}run", index, call, call.nested)
            return f"TVMCONV_NESTED({index}, {branch}); {said}"
        if isinstance(call.nested, Loop):
            return f"TVMCONV_NESTED({index}, {self._prefix}loop_{index}(frame)); {said}"
        return f"TVMCONV_CALL({index}, {self._code(call)}); {said}"

    def _check(self, index: int, call: Call) -> list[str]:
        """The test of the flags that a call writes, if it writes any."""
        if not call.record.check:
            return []
        flags, text = call.operands[-1], self._strings(call.record.check)
        return [f"TVMCONV_CHECK({index}, {_operand(flags)}, {flags.bytes // 4}, {text});"]

    def _code(self, call: Call) -> str:
        operands = [_operand(operand) for operand in call.operands]
        frame = ["frame"] if self._on_gpu else []
        if call.record.kernel:
            return f"{call.record.kernel}({', '.join([*frame, *operands])})"
        source, target = operands
        arguments = f"{target}, {source}, {whole(call.operands[1].bytes)}"
        if self._on_gpu:
            return f"tvmconv_copy(frame, {arguments})"
        return f"(memcpy({arguments}), 0)"


def _branch(run: str, index: int, call: Call, branch: Branch) -> str:
    condition, *operands = map(_operand, call.operands)
    count = len(branch.then.inputs)
    arena = operands.pop()
    then = index + 1
    other = then + sum(1 for _ in branch.then.all_calls())
    return (
        f"tvmconv_nested(frame, *(const char *){condition} ? {run}_{then} : {run}_{other}, "
        f"{_pointers('const void *', operands[:count])}, "
        f"{_pointers('void *', operands[count:])}, {arena})"
    )


def _pointers(kind: str, operands: Sequence[str]) -> str:
    return f"({kind}[]){{{', '.join(operands)}}}" if operands else "NULL"


def _operand(operand: Operand) -> str:
    several = operand.place in (Place.INPUT, Place.OUTPUT)
    index = f"{operand.index}, " if several else ""
    return f"{_MACROS[operand.place]}({index}{whole(operand.offset)})"


def _loop(prefix: str, index: int, call: Call, loop: Loop) -> Iterator[str]:
    """A function that runs the body of a loop.

    States alternate between two tensors. The first one is chosen so that the last trip writes the
    result; a loop that may end early copies what its last trip wrote.
    """
    form, trips = loop.form, loop.form.trips
    operands = list(call.operands)
    guard = operands.pop(0) if form.guarded else None
    inputs = [operands.pop(0) for _ in loop.body.inputs[int(form.counts) :]]
    results = [operands.pop(0) for _ in loop.body.outputs[int(form.ends) :]]
    second = [operands.pop(0) for _ in range(form.states)]
    condition = operands.pop(0) if form.ends else None
    (arena,) = operands
    first = results[: form.states] if trips % 2 else second
    given = [_operand(operand) for operand in inputs]
    made = [_operand(operand) for operand in (*first, *results[form.states :])]
    steps = []
    for kind, whole_tensors, slices, backward in (
        ("inputs", given, loop.body.inputs, form.backward),
        ("outputs", made, loop.body.outputs, form.stacked_backward),
    ):
        shift = int(form.counts if kind == "inputs" else form.ends)
        cast = "(const char *)" if kind == "inputs" else "(char *)"
        for place, reverse in enumerate(backward, form.states):
            size = slices[place + shift].bytes
            if reverse and size:
                whole_tensors[place] = f"{cast}{whole_tensors[place]} + {whole((trips - 1) * size)}"
            item = f"{kind}[{place + shift}]"
            steps.append(f"{item} = {cast}{item} {'-' if reverse else '+'} {whole(size)};")
    shift, offset = int(form.counts), int(form.ends)
    for state in range(form.states):
        new, item = f"outputs[{state + offset}]", f"inputs[{state + shift}]"
        pair = _operand(results[state]), _operand(second[state])
        steps.append(f"{item} = {new};")
        steps.append(f"{new} = {new} == {pair[0]} ? {pair[1]} : {pair[0]};")
    yield f"static int32_t {prefix}loop_{index}(tvmconv_frame *frame) {{"
    yield "    int64_t trip = 0;"
    given = ["&trip"] * form.counts + given
    made = [_operand(condition)] * form.ends + made if condition else made
    yield f"    const void *inputs[] = {{{', '.join(given) or 'NULL'}}};"
    yield f"    void *outputs[] = {{{', '.join(made) or 'NULL'}}};"
    going = f"*(const char *){_operand(guard)}" if guard else "1"
    yield f"    for (int going = {going}; going && trip < {whole(trips)}; ++trip) {{"
    yield (
        f"        int32_t status = tvmconv_nested(frame, {prefix}run_{index + 1}, inputs, outputs, "
        f"{_operand(arena)});"
    )
    yield "        if (status) return status;"
    if condition:
        yield f"        going = *(const char *){_operand(condition)};"
    yield from (f"        {step}" for step in steps)
    yield "    }"
    for state, result in enumerate(results[: form.states] if form.ends or form.guarded else ()):
        item, target = f"inputs[{state + shift}]", _operand(result)
        yield f"    if ({item} != {target}) memcpy({target}, {item}, {whole(result.bytes)});"
    yield "    return 0;"
    yield "}"
    yield ""
