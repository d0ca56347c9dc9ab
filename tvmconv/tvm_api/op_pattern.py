"""How far TVM may merge a function with its neighbours: values of the attribute ``op_pattern``.

They are ``relax::OpPatternKind`` of C++, for which TVM has no names in Python.
"""

# each element of the result is computed from one of each operand, wherever that lies
INJECTIVE = 2
# elementwise work may follow it, and nothing goes in front
OUT_ELEMENTWISE_FUSABLE = 4
# it stays alone
OPAQUE = 8
