"""Formulas of docstrings, which are written as Python, as MathML: browsers draw it without a library or a network."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from markupsafe import Markup

MULTIPLY, MINUS, TRANSPOSED = "\N{DOT OPERATOR}", "\N{MINUS SIGN}", "\N{DOWN TACK}"
OPERATORS: dict[type, tuple[int, str]] = {
    ast.Add: (1, "+"),
    ast.Sub: (1, MINUS),
    ast.Mult: (2, MULTIPLY),
    ast.MatMult: (2, ""),
    ast.Mod: (2, "mod"),
}
COMPARISONS: dict[type, str] = {
    ast.Lt: "<",
    ast.LtE: "\N{LESS-THAN OR EQUAL TO}",
    ast.Gt: ">",
    ast.GtE: "\N{GREATER-THAN OR EQUAL TO}",
    ast.Eq: "=",
    ast.NotEq: "\N{NOT EQUAL TO}",
}
HIGHEST = 9


def of_docstring(text: str) -> list[str]:
    """The forward of the first line, then the gradients: those of its assignments that `mathml` can draw."""
    first = next(iter(text.splitlines()), "")
    indented = re.findall(r"^ +(grad_\w+ +=.+|grad_\w+\[.+?\] +=.+)$", text, re.MULTILINE)
    found = [*re.findall(r"`([^`]+ = [^`]+)`", first), *(" ".join(line.split()) for line in indented)]
    return [formula for formula in dict.fromkeys(found) if _parsed(formula) is not None]


def mathml(formula: str) -> Markup:
    """The assignment `left = right`, with or without `where condition, else other`; as code where it is none."""
    parsed = _parsed(formula)
    if parsed is None:
        return Markup("<code>{}</code>").format(formula)
    left, right = parsed
    content = Markup("").join([_draw(left), _operator("="), _draw(right)])
    return Markup('<math display="block"><mrow>{}</mrow></math>').format(content)


def _parsed(formula: str) -> tuple[ast.expr, ast.expr] | None:
    left, _, right = formula.partition(" = ")
    cases = re.fullmatch(r"(.+?) where (.+), else (.+)", right)
    value = f"({cases[1]}) if ({cases[2]}) else ({cases[3]})" if cases else right
    try:
        found = ast.parse(left.strip(), mode="eval").body, ast.parse(value.strip(), mode="eval").body
        for part in found:
            _draw(part)
    except (SyntaxError, NotImplementedError):
        return None
    return found


def _draw(node: ast.expr, outer: int = 0) -> Markup:
    """outer: how tightly the operator around it binds; a looser one stands in parentheses."""
    if isinstance(node, ast.BinOp):
        return _binary(node, outer)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        drawn = _operator(MINUS) + _draw(node.operand, 2)
        return _fenced(drawn) if outer > 1 else drawn
    if isinstance(node, ast.Name):
        return _name(node.id)
    if isinstance(node, ast.Constant):
        return Markup("<mn>{}</mn>").format(node.value)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
        return _call(node.func.id, node.args)
    if isinstance(node, ast.Subscript):
        return _tag("msub", _draw(node.value, HIGHEST), _draw(node.slice))
    if isinstance(node, ast.Attribute) and node.attr == "T":
        return _tag("msup", _draw(node.value, HIGHEST), _operator(TRANSPOSED))
    if isinstance(node, ast.Compare):
        return Markup("").join(_compared(node))
    if isinstance(node, ast.IfExp):
        return _cases(node)
    if isinstance(node, ast.Tuple):
        return _fenced(_list(node.elts))
    raise NotImplementedError(f"formula: {type(node).__name__} has no drawing")


def _binary(node: ast.BinOp, outer: int) -> Markup:
    if isinstance(node.op, ast.Div):
        return _tag("mfrac", _draw(node.left), _draw(node.right))
    if isinstance(node.op, ast.Pow):
        return _tag("msup", _draw(node.left, HIGHEST), _draw(node.right))
    if type(node.op) not in OPERATORS:
        raise NotImplementedError(f"formula: {type(node.op).__name__} has no drawing")
    binds, sign = OPERATORS[type(node.op)]
    # a - (b - c) needs its parentheses, (a - b) - c none.
    right = binds + isinstance(node.op, ast.Sub)
    drawn = _draw(node.left, binds) + (_operator(sign) if sign else Markup("")) + _draw(node.right, right)
    return _fenced(drawn) if binds < outer else drawn


def _call(function: str, arguments: list[ast.expr]) -> Markup:
    if function == "sqrt":
        return _tag("msqrt", *map(_draw, arguments))
    if function == "abs":
        return _fenced(_list(arguments), "|", "|")
    return _name(function) + _fenced(_list(arguments))


def _compared(node: ast.Compare) -> Iterator[Markup]:
    yield _draw(node.left)
    for sign, operand in zip(node.ops, node.comparators, strict=True):
        if type(sign) not in COMPARISONS:
            raise NotImplementedError(f"formula: {type(sign).__name__} has no drawing")
        yield _operator(COMPARISONS[type(sign)])
        yield _draw(operand)


def _cases(node: ast.IfExp) -> Markup:
    rows = [(_draw(node.body), Markup("<mtext>where </mtext>") + _draw(node.test))]
    rows.append((_draw(node.orelse), Markup("<mtext>else</mtext>")))
    drawn = (_tag("mtr", *(_tag("mtd", cell) for cell in row)) for row in rows)
    return _operator("{") + _tag("mtable", *drawn)


def _name(name: str) -> Markup:
    """What follows an underscore is an index: grad_x."""
    head, _, tail = name.partition("_")
    if not head or not tail:
        return Markup("<mi>{}</mi>").format(name)
    return Markup("<msub><mi>{}</mi><mtext>{}</mtext></msub>").format(head, tail)


def _list(nodes: list[ast.expr]) -> Markup:
    return _operator(",").join(_draw(node) for node in nodes)


def _fenced(drawn: Markup, left: str = "(", right: str = ")") -> Markup:
    return _tag("mrow", _operator(left) + drawn + _operator(right))


def _operator(sign: str) -> Markup:
    return Markup("<mo>{}</mo>").format(sign)


def _tag(name: str, *children: Markup) -> Markup:
    """The element of one of MathML's names; those that take a fixed number of children get one row each."""
    fixed = name in ("mfrac", "msub", "msup")
    content = Markup("").join(Markup("<mrow>{}</mrow>").format(child) if fixed else child for child in children)
    return Markup(f"<{name}>{content}</{name}>")
