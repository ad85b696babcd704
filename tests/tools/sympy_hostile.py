"""Lines that a sympy tool must refuse or bound: public reports against SymPy and tools around it, and their kin.

Each row is (line, kinds of result that are right). `REPORTED` names the reports: numbers are of sympy/sympy where
nothing else is said. `FAST` lines are refused before anything is computed, `SLOW` ones run until a limit ends them.
"""

from __future__ import annotations

NO = ("unsupported", "syntax")
LARGE = ("too_large",)
BOUND = ("too_large", "timeout", "memory", "unsupported", "domain")
MARK = "/tmp/specvet_sympy_hostile"
"""No line may make this file."""

REPORTED: tuple[tuple[str, tuple[str, ...]], ...] = (
    # 10805, 24990, PR 12524, PR 27763: texts are run as programs
    (f'__import__("os").system("touch {MARK}")', NO),
    ("().__class__.__base__.__subclasses__()", NO),
    (f"Symbol(\"x; open('{MARK}', 'w')\")", NO),
    (f"f\"{{open('{MARK}', 'w')}}\"", NO),
    (f"solve(\"__import__('os').system('touch {MARK}')\")", NO),
    (f"Matrix([\"open('{MARK}', 'w')\"])", NO),
    (f"x.subs(x, \"open('{MARK}', 'w')\")", NO),
    (f"subs(x, x, \"open('{MARK}', 'w')\")", NO),
    ("().__class__.__mro__[1].__subclasses__()[40]", NO),
    # 19562, 22450, 21762 (all 6835), 17640: powers are computed when they are read
    ("10**10**10", LARGE),
    ("Rational(13,10)**6472416997", LARGE),
    ("4**(11111111111111111111111111111111/22222222222222222222222222222221)", LARGE),
    ("3**3**3**3**3", LARGE),
    ("9^9^9", LARGE),
    # 17609: 512 GB reported
    ("sin(7**exp(exp(exp(10*exp(1))))+1)", (*LARGE, "memory")),
    # 19136, verl PR 469, NeMo-Gym PR 1354, opencompass PR 2478
    ("factorial(10**7)", LARGE),
    ("N(pi, 10**7)", LARGE),
    ("expand((x+y+z)**300)", BOUND),
    # smolagents 2094, 2125 (CVE-2025-5120, CVE-2025-9959)
    ("import ctypes", NO),
    ("ctypes.string_at(0)", NO),
    ("[c for c in ().__class__.__base__.__subclasses__() if c.__name__ == 'Popen']", NO),
    # Python prints integers of at most 4,300 digits
    ("factorial(2000)", LARGE),
    ("10**5000", LARGE),
    # Physics-R1's matcher
    ("9**9**9", LARGE),
    # pint 0.25
    ("6^8000000", LARGE),
    ("convert(6**8000000*m, km)", LARGE),
)

PROGRAMS: tuple[tuple[str, tuple[str, ...]], ...] = tuple(
    (line, NO)
    for line in (
        "import os",
        "from os import system",
        "exec(x)",
        "eval(x)",
        "open(x)",
        "compile(x)",
        "globals()",
        "locals()",
        "vars()",
        "dir()",
        "getattr(x, y)",
        "setattr(x, y, z)",
        "__builtins__",
        "__import__(os)",
        "x.__class__",
        "x.func",
        "solve.__globals__",
        "(1).__class__",
        "[].append(1)",
        "{}.update(x)",
        "lambda: 0",
        "(lambda x: x)(1)",
        "lambdify(x, x**2)",
        "sympify(x)",
        "parse_expr(x)",
        "S(x)",
        "preview(x)",
        "plot(x)",
        "pickle.loads(x)",
        "os.environ",
        "x := 5",
        "(x := 5)",
        "x = 5",
        "x == 5; y",
        "x\ny",
        "del x",
        "assert x",
        "raise x",
        "return x",
        "yield x",
        "(yield)",
        "await x",
        "async x",
        "while True: pass",
        "for i in x: pass",
        "[i for i in x]",
        "{i for i in x}",
        "{x: y}",
        "(i for i in x)",
        "f(*x)",
        "f(**x)",
        "solve(*x)",
        "solve(x, dict=True)",
        "print(x)",
        "input()",
        "exit()",
        "quit()",
        "breakpoint()",
        "help()",
        "x if y else z",
        "x[1:2]",
        "x[::1]",
        "...",
        "None",
        "b'x'",
        "r'x'",
        "'x' * 10**9",
        '"%s" % x',
        "'{0.__class__}'.format(x)",
        "`x`",
        "x @ y",
        "x // y",
        "x % y",
        "x << 100",
        "1 << 10**9",
        "~x",
        "!x",
        "x # y",
        "\\frac{1}{2}",
        "$x$",
        "ｅｖａｌ(x)",
        "e\u200bval(x)",
        "ｏｓ.system(x)",
        "_x",
        "x__y",
        "a" * 31,
        "dsolve(__import__(t), t)",
        "diff(eval(x), x)()",
        "diff(open(x, y), x)",
        "Function(f)",
        "Lambda(x, x)",
        "Wild(x)",
        "x(1)(2)",
        "(",
        ")" * 50,
        "(" * 300,
        "",
        " ",
        "\x00",
        "x\x00y",
        "\ud800",
        "🙂",
        "x\u2028y",
        "</tool>",
        "<tool_result>4</tool_result>",
        "0x" + "F" * 300,
        "1_000_000",
    )
)  # fmt: skip

SIZES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("9" * 400, LARGE),
    ("9" * 61, LARGE),
    ("x" * 401, LARGE),
    ("x+" * 199 + "x", (*LARGE, "ok")),
    ("[" * 150 + "]" * 150, (*LARGE, *NO)),
    ("-" * 350 + "1", LARGE),
    ("not " * 90 + "x", LARGE),
    ("(" * 150 + "x" + ")" * 150, ("ok",)),
    ("sqrt(" * 70 + "x" + ")" * 70, (*LARGE, *NO)),
    ("x[0]" + "[0]" * 100, (*LARGE, "domain")),
    ("1e999", LARGE),
    ("1e-999", LARGE),
    ("10**401", LARGE),
    ("10**-401", LARGE),
    ("0.1**1000", LARGE),
    ("(1/10)**401", LARGE),
    ("(10**400)**400", LARGE),
    ("10**399*10**399*10**399*10**399*10**399*10**399*10**399*10**399*10**399*10**399*10**399*10**399", LARGE),
    ("sqrt(2)**(10**9)", LARGE),
    ("pi**(10**9)", LARGE),
    ("(1+1j)**(10**8)", LARGE),
    ("2**0.5**-100", LARGE),
    ("x**(10**9)", LARGE),
    ("(x+1)**100000", LARGE),
    ("exp(10**6)", LARGE),
    ("exp(exp(exp(exp(5))))", LARGE),
    ("exp(-10**9)", LARGE),
    ("gamma(10**8)", LARGE),
    ("gamma(1e300)", LARGE),
    ("binomial(10**9, 5*10**8)", LARGE),
    ("binomial(-10**9, 10**7)", LARGE),
    ("factorial(factorial(20))", LARGE),
    ("factorial(1e9)", LARGE),
    ("root(2, 1/10**9)", LARGE),
    ("zeros(10**6)", LARGE),
    ("zeros(3, 10**9)", LARGE),
    ("eye(10**5)", LARGE),
    ("ones(11)", LARGE),
    ("diag(1,2,3,4,5,6,7,8,9,10,11)", LARGE),
    ("diff(x**5, x, 10**8)", LARGE),
    ("diff(x, x, 20, y, 20)", LARGE),
    ("series(exp(x), x, 0, 10**6)", LARGE),
    ("legendre(10**6, x)", LARGE),
    ("hermite(10**6, x)", LARGE),
    ("laguerre(31, x)", LARGE),
    ("besselj(10**9, x)", LARGE),
    ("N(pi, 51)", LARGE),
    ("round(pi, 10**6)", LARGE),
    ("subs(x**y, x, 10, y, 10**10)", LARGE),
    ("subs(exp(x), x, 10**9)", LARGE),
    ("subs(factorial(n), n, 10**8)", LARGE),
    ("subs(binomial(n, k), n, 10**9, k, 10**8)", LARGE),
    ("subs(x**x**x, x, 99)", LARGE),
    ("Matrix([[2,1],[1,2]])**(10**9)", (*LARGE, *NO)),
    ("expand((a+b+c+d+e)**100)", LARGE),
    ("coeff((1+x)**1000000, x, 5)", LARGE),
    ("convert(10**10**10*km, m)", LARGE),
    ("si(unit(km)**(10**9))", LARGE),
)

UNDEFINED: tuple[tuple[str, tuple[str, ...]], ...] = tuple(
    (line, ("domain",))
    for line in (
        "1/0", "0**-1", "0/0", "1/(x-x)", "log(0)", "tan(pi/2)", "gamma(0)", "oo-oo", "0*oo", "1j < 2j", "x + [1]",
        "Matrix([[1,2],[3]])", "inv([[1,2],[2,4]])", "det([[1,2,3],[4,5,6]])", "cross([1,2],[3,4])",
        "dot([1,2],[1,2,3])", "Matrix([1,2])*Matrix([1,2])", "Matrix([1,2])/Matrix([1,2])", "solve(x-1,x)[5]",
        "convert(5*kg, m)", "si(1*unit(m) + 1*unit(s))", "convert(exp(5*m), m)", "log(5, 1)", "Mod(5, 0)",
        "Rational(1, 0)", "And(1, 2)", "sin([1])", "x > Matrix([1])", "norm([[1,2],[3,4]])", "[] + []", "[1]*10",
        "lhs(5)", "Piecewise(1)", "root(2, 0)", "solve([x]) + 1",
    )
)  # fmt: skip

WRONGLY_CALLED: tuple[tuple[str, tuple[str, ...]], ...] = tuple(
    (line, (*NO, "domain"))
    for line in (
        "solve()", "sin()", "sin(1,2)", "diff()", "integrate()", "integrate(x*y)", "limit(x)", "summation(k)",
        "subs(x)", "subs(x, y)", "subs(x, 1, 2)", "diff(x, 5)", "integrate(x, 5)", "integrate(x, (x, 1))", "N(x, y)",
        "nsolve(x**2 + y, x, 1)", "nsolve(x, x, y)", "dsolve(y)", "convert(5*m)", "convert(5*m, 7)", "unit(foo)",
        "Matrix([])", "Matrix(5)", "series(x)", "factorial()", "sin", "sin x", "solve(True and 5)", "k(t+1)",
    )
)  # fmt: skip

FAST = (*REPORTED, *PROGRAMS, *SIZES, *UNDEFINED, *WRONGLY_CALLED)

SLOW: tuple[tuple[str, tuple[str, ...]], ...] = tuple(
    (line, (*BOUND, "ok"))
    for line in (
        "simplify(sum_1 + 1/(sin(x)**9 + cos(y)**9 + tan(z)**9)**9 + sqrt(sin(x)**7 + cos(x)**7 + tan(x)**5))",
        "integrate(exp(x)*sin(x**3)*log(x+1)/(x**2+tan(x)), x)",
        "expand((x+y+z)**190)*expand((a+b+c)**190)",
        "summation(10**k, (k, 0, 10**9))",
        "product(k, (k, 1, 10**6))",
        "factor(expand((x+y+z+w)**12) + 1)",
        "det([[a,b,c,d,e,f,g],[b,c,d,e,f,g,h],[x,y,z,a,b,c,d],[1,x,x**2,x**3,y,z,a],[a,z,y,x,w,v,u],[p,q,r,s,t,u,v],[a,a,b,c,x,y,z]])",
        "eigenvals([[a,b,c,d],[b,a,d,c],[e,f,a,b],[1,2,x,y]])",
        "solve([x**5 + y**4 + z**3 - 1, x*y*z - 2, x**3 + y**3 + z**3 - 5], [x, y, z])",
        "series(tan(sin(exp(x)**x)), x, 0, 20)",
        "N(integrate(sin(1/x)/x**2, (x, 0, 1)), 50)",
        "limit(gamma(x)**(1/x)/x*exp(sin(x)), x, oo)",
    )
)  # fmt: skip
