"""How far TVM may merge a function with its neighbours: values of the attribute ``op_pattern``.

They are ``relax::OpPatternKind`` of C++, for which TVM has no names in Python.
"""

# elementwise work may follow it, and nothing goes in front
OUT_ELEMENTWISE_FUSABLE = 4
# it stays alone
OPAQUE = 8
