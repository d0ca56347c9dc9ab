"""How far TVM may fuse a function with adjacent ones: values of the attribute ``op_pattern``.

They are ``relax::OpPatternKind`` of C++, for which TVM has no names in Python.
"""

# each element of the result depends on one element of each operand, at any place
INJECTIVE = 2
# elementwise operators may follow it; none may precede it
OUT_ELEMENTWISE_FUSABLE = 4
# it stays alone
OPAQUE = 8
