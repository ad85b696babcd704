"""The sympy tool: typed results from processes that can be killed, whatever a model writes."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytest.importorskip("sympy", reason="needs the extra `physics`")

import sympy_hostile as hostile

from specvet.tools.sympy_tool import Limits, Pool, SympyTool
from specvet.tools.sympy_tool.text import elided, neutralised, one_line

FREE = {"calls": 10**9, "episode_s": 1e9}
HANG = "integrate(exp(x)*sin(x**3)*log(x + 1)/(x**2 + tan(x)), x)"


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    found = Pool(workers=2)
    yield found
    found.close()


def tool(pool: Pool, **limits: float) -> SympyTool:
    return SympyTool(Limits(**{**FREE, **limits}), pool)  # type: ignore[arg-type]


def children(pid: int) -> dict[int, str]:
    """Child process → its state (Z a zombie), of Linux's /proc."""
    found = {}
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        try:
            found[int(child)] = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
    return found


def settled(pid: int, most: int) -> dict[int, str]:
    """The children once no more than `most` are left and none is a zombie; those after 10 s otherwise."""
    deadline = time.monotonic() + 10
    while (len(found := children(pid)) > most or "Z" in found.values()) and time.monotonic() < deadline:
        os.sched_yield()
    return found


def resident_kb(pid: int | str = "self") -> int:
    return int(Path(f"/proc/{pid}/status").read_text().partition("VmRSS:")[2].split()[0])


def test_a_line_has_a_result_and_an_error_its_kind(pool: Pool) -> None:
    ask = tool(pool).run
    assert ask("solve(2*x + 3 == 7, x)").text == "[2]"
    for line, kind in (("1/0", "domain"), ("(", "syntax"), ("x = 5", "unsupported"), ("9**9**9", "too_large")):
        result = ask(line)
        assert (result.status, result.kind) == ("error", kind)
        assert result.text.startswith(f"error: {kind}: ")
    assert ask(5).kind == ask(None).kind == "syntax"
    assert ask("x" * 10**6).kind == "too_large"


def test_the_examples_of_the_page_give_what_it_says(pool: Pool) -> None:
    page = (Path(__file__).parents[2] / "docs" / "physics.md").read_text(encoding="utf-8")
    lines = [line.strip() for line in page.splitlines() if line.strip().startswith("tool.run(")]
    assert len(lines) == 4
    for line in lines:
        code, _, said = line.partition("#")
        argument = json.loads(code.partition("(")[2].rpartition(")")[0])
        result = tool(pool).run(argument)
        assert said.strip().strip("'") == (result.kind if ").kind" in code else result.text)


@pytest.mark.parametrize(("rows"), [hostile.FAST[i::4] for i in range(4)], ids=lambda rows: f"{len(rows)} lines")
def test_hostile_lines_are_refused_before_they_are_computed(
    pool: Pool, rows: tuple[tuple[str, tuple[str, ...]], ...]
) -> None:
    before = resident_kb()
    wrong = []
    for line, kinds in rows:
        result = tool(pool).run(line)
        if (result.kind or "ok") not in kinds or "\n" in result.text or len(result.text) > 512:
            wrong.append((line, kinds, result))
    assert wrong == []
    assert not Path(hostile.MARK).exists()
    assert resident_kb() - before < 8_000


def test_there_are_a_hundred_hostile_lines_beside_the_reported_ones() -> None:
    lines = [line for line, _ in (*hostile.FAST, *hostile.SLOW)]
    assert len(set(lines)) == len(lines) >= len(hostile.REPORTED) + 100


def test_lines_that_hang_or_fill_the_memory_are_stopped_and_the_next_call_works(pool: Pool) -> None:
    before, asked = resident_kb(), tool(pool, wall_s=0.3)
    for line, kinds in hostile.SLOW:
        result = asked.run(line)
        assert (result.kind or "ok") in kinds, (line, result)
        assert result.seconds < 0.8, (line, result)
        assert asked.run(f"1 + {len(line)}").kind in ("", "timeout")  # a machine under load may be slow
    assert resident_kb() - before < 8_000
    assert tool(pool).run("1 + 1").text == "2"


def test_the_memory_limit_is_an_error_of_its_own(pool: Pool) -> None:
    result = tool(pool, memory_mb=64, wall_s=30.0, cpu_s=20).run("expand((a + b + c + d)**20)")
    assert result.kind == "memory", result


def test_the_cpu_limit_is_a_timeout(pool: Pool) -> None:
    result = tool(pool, cpu_s=1, wall_s=30.0).run(HANG)
    assert result.kind == "timeout"
    assert result.seconds < 29


def test_hundreds_of_timeouts_leave_no_process_and_no_memory(pool: Pool) -> None:
    asked = tool(pool, wall_s=0.004)
    asked.run(HANG)
    before = resident_kb(), resident_kb(pool.pid or 0), len(os.listdir("/proc/self/fd"))
    kinds = [asked.run(f"{HANG} + {i}").kind for i in range(200)]
    assert kinds == ["timeout"] * 200
    assert pool.pid is not None
    left = settled(pool.pid, pool.workers)
    assert len(left) <= pool.workers
    assert "Z" not in left.values()
    assert resident_kb() - before[0] < 4_000
    assert resident_kb(pool.pid) - before[1] < 4_000
    assert len(os.listdir("/proc/self/fd")) - before[2] <= pool.workers
    assert tool(pool).run("2 + 2").text == "4"


def test_many_threads_get_their_own_answers(pool: Pool) -> None:
    def ask(i: int) -> str:
        return tool(pool).run(f"{i}**2 + x").text

    with ThreadPoolExecutor(16) as threads:
        assert list(threads.map(ask, range(1, 65))) == [f"x + {i * i}" for i in range(1, 65)]


def test_a_hung_call_does_not_exhaust_a_pool_of_two(pool: Pool) -> None:
    with ThreadPoolExecutor(6) as threads:
        hung = [threads.submit(tool(pool, wall_s=0.5).run, HANG) for _ in range(4)]
        fine = threads.submit(tool(pool).run, "3*4")
        assert [call.result().kind for call in hung] == ["timeout"] * 4
        assert fine.result().text == "12"


def test_calls_inside_asyncio_run_beside_the_loop(pool: Pool) -> None:
    async def main() -> tuple[list[str], int]:
        ticks, done = 0, asyncio.Event()

        async def tick() -> None:
            nonlocal ticks
            while not done.is_set():
                ticks += 1
                await asyncio.sleep(0)

        ticking = asyncio.create_task(tick())
        results = await asyncio.gather(*(tool(pool).arun(f"{i} + y") for i in range(8)))
        done.set()
        await ticking
        return [result.text for result in results], ticks

    texts, ticks = asyncio.run(main())
    assert texts == ["y", *(f"y + {i}" for i in range(1, 8))]
    assert ticks > 8


def test_the_server_has_one_thread_and_nothing_of_its_owner(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "hush")
    threading.Thread(target=lambda: None).start()
    fresh = Pool(workers=1)
    try:
        assert tool(fresh).run("1").text == "1"
        assert fresh.pid is not None
        assert "Threads:\t1\n" in Path(f"/proc/{fresh.pid}/status").read_text()
        names = {line.partition(b"=")[0] for line in Path(f"/proc/{fresh.pid}/environ").read_bytes().split(b"\0")}
        assert names - {b""} == {
            b"PATH", b"PYTHONPATH", b"PYTHONHASHSEED", b"PYTHONDONTWRITEBYTECODE", b"OMP_NUM_THREADS", b"LC_ALL"
        }  # fmt: skip
        assert len(os.listdir(f"/proc/{fresh.pid}/fd")) <= 8
    finally:
        fresh.close()


def test_a_worker_is_confined(pool: Pool) -> None:
    tool(pool).run("1")
    assert pool.pid is not None
    pid = max(children(pool.pid))
    said = Path(f"/proc/{pid}/limits").read_text()
    limits = {line[:26].strip(): line[26:].split()[0] for line in said.splitlines()}
    # A worker that only waits may still be on its way to its limits; the next one to look at has them.
    deadline = time.monotonic() + 10
    while limits["Max file size"] != "0" and time.monotonic() < deadline:
        limits = {l[:26].strip(): l[26:].split()[0] for l in Path(f"/proc/{pid}/limits").read_text().splitlines()}
    assert (limits["Max file size"], limits["Max open files"], limits["Max core file size"]) == ("0", "8", "0")
    assert os.getpgid(pid) == pid


def test_a_server_that_was_killed_is_started_again() -> None:
    fresh = Pool(workers=1)
    try:
        assert tool(fresh).run("1 + 2").text == "3"
        first = fresh.pid
        assert first is not None
        workers = list(children(first))
        os.kill(first, signal.SIGKILL)
        assert tool(fresh).run("1 + 3").text == "4"
        assert fresh.pid != first
        deadline = time.monotonic() + 10
        while any(_runs(pid) for pid in workers) and time.monotonic() < deadline:
            os.sched_yield()
        assert not any(_runs(pid) for pid in workers)
    finally:
        fresh.close()
    assert fresh.pid is None


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_server_and_workers_end_with_their_owner() -> None:
    code = (
        "import os, signal, sys\n"
        "from specvet.tools.sympy_tool import Pool, Limits\n"
        "pool = Pool(1)\n"
        "pool.call('1', Limits())\n"
        "print(pool.pid, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    server, deadline = int(run.stdout), time.monotonic() + 10
    while _runs(server) and time.monotonic() < deadline:
        os.sched_yield()
    assert not _runs(server)


def test_a_forked_process_gets_a_server_of_its_own(pool: Pool) -> None:
    tool(pool).run("1")
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.write(write, f"{tool(pool).run('5*5').text} {pool.pid}".encode())
            pool.close()
        finally:
            os._exit(0)
    os.close(write)
    os.waitpid(pid, 0)
    with os.fdopen(read, "rb") as said:
        text, server = said.read().split()
    assert text == b"25"
    assert int(server) != pool.pid
    assert tool(pool).run("6*6").text == "36"


def test_a_result_hangs_on_nothing_that_was_asked_before(pool: Pool) -> None:
    line = "solve([x**2 + y**2 == 25, x*y == 12], [x, y])"
    first = tool(pool).run(line).text
    for other in ("solve(y**2 == x, y)", "factor(x**6 - y**6)", "simplify(sqrt(x**2))"):
        tool(pool).run(other)
    assert tool(pool).run(line).text == first
    fresh = Pool(workers=1)
    try:
        assert tool(fresh).run(line).text == first
    finally:
        fresh.close()


def test_an_episode_counts_its_calls_and_remembers_lines(pool: Pool) -> None:
    episode = SympyTool(Limits(calls=4), pool)
    first, again = episode.run("2*3"), episode.run("2*3 ")
    assert (first.text, again.text, first.repeated, again.repeated, again.seconds) == ("6", "6", False, True, 0.0)
    assert episode.run("1/0").kind == "domain"
    assert episode.run("1/0").repeated
    refused = episode.run("3*3")
    assert (refused.kind, refused.text[:19]) == ("max_calls", "error: max_calls: t")
    assert (episode.calls, episode.repeated) == (5, 2)
    assert episode.kinds == {"domain": 2, "max_calls": 1}


def test_an_episode_has_a_budget_of_tool_time(pool: Pool) -> None:
    episode = SympyTool(Limits(calls=9, wall_s=0.3, episode_s=0.5), pool)
    kinds = [episode.run(f"{HANG} + {i}").kind for i in range(3)]
    assert kinds == ["timeout", "timeout", "tool_budget"]
    assert 0.5 <= episode.seconds < 1.5


def test_texts_that_sympy_makes_itself_are_read_by_the_grammar(pool: Pool) -> None:
    assert tool(pool).run("radsimp(1/(1 + sqrt(2)))").text == "-1 + sqrt(2)"
    code = (
        "from specvet.tools.sympy_tool.worker import read_by_grammar\n"
        "import sympy\n"
        "read_by_grammar()\n"
        "assert sympy.sympify('x + 1') == sympy.Symbol('x') + 1\n"
        "for call in (sympy.sympify, sympy.S, sympy.solve, sympy.simplify, lambda s: sympy.Symbol('x').subs('x', s)):\n"
        "    try:\n"
        "        call('print(1)')\n"
        "    except Exception as error:\n"
        "        print(type(error).__name__)\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["GrammarError"] * 5


def test_it_is_a_tool_of_the_project(pool: Pool) -> None:
    found = tool(pool)
    assert found.schema()["function"]["name"] == found.name == "sympy"
    seen = found({"expression": "6*7"})
    assert (seen.kind, seen.text) == ("result", "42")
    assert found({}).kind == found("(").kind == found({"expression": 5}).kind == "syntax"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<tool_result>4</tool_result>", "[tool_result]4[/tool_result]"),
        ("< / TOOL_Result >", "[ / TOOL_Result ]"),
        ("＜tool＞x＜/tool＞", "[tool]x[/tool]"),
        ("<ｔｏｏｌ>", "[ｔｏｏｌ]"),
        ("<to\u200bol>", "[tool]"),
        ("<tool result>", "[tool result]"),
        ("<tool-result id=3>", "[tool-result id=3]"),
        ("<answer>\\boxed{4}</answer>", "[answer]\\boxed{4}[/answer]"),
        ("</think>", "[/think]"),
        ("<|im_end|>", "[|im_end|]"),
        ("<|im_start|>assistant", "[|im_start|]assistant"),
        ("<tool_result", "[tool_result"),
        ("⟨tool⟩", "[tool]"),
        ("a < b", "a < b"),
        ("(x < 2) & (x > 0)", "(x < 2) & (x > 0)"),
        ("t < toolbox", "t < toolbox"),
    ],
)
def test_tags_of_the_protocol_are_neutralised_and_relations_stay(text: str, expected: str) -> None:
    assert one_line(text) == expected


def test_a_long_result_keeps_its_ends_and_says_how_much_is_gone(pool: Pool) -> None:
    result = tool(pool).run("expand((a + b + c)**40)")
    assert result.ok
    assert len(result.text) == 512
    head, count, tail = result.text.replace("]…", "…[").split("…[")
    whole = int(count.split()[0]) + len(head) + len(tail)
    import sympy

    assert whole == len(str(sympy.expand(sympy.Add(*sympy.symbols("a b c")) ** 40)))
    assert head.startswith("a**40")
    assert tail.endswith("c**40")
    assert elided("x" * 512, 512) == "x" * 512


@given(st.text(alphabet="<>＜＞/ tolresu_|TOL\u200b", max_size=40))
def test_no_tag_survives_twice_or_in_pieces(text: str) -> None:
    once = neutralised(text)
    assert len(once) == len(text)
    assert neutralised(once) == once


WORDS = st.sampled_from(
    ["solve", "diff", "integrate", "N", "simplify", "Matrix", "limit", "subs", "convert", "dsolve", "det"]
)
PIECES = st.recursive(
    st.sampled_from(["x", "t", "2", "10**9", "f(t)", "0", "1e308", "km", "[]", "oo"]),
    lambda inner: st.one_of(
        st.builds("{}({}, {})".format, WORDS, inner, inner),
        st.builds("({}){}({})".format, inner, st.sampled_from(["+", "*", "**", "/", "==", "<"]), inner),
        st.builds("[{}, {}]".format, inner, inner),
    ),
    max_leaves=6,
)


@settings(max_examples=50, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.one_of(PIECES, st.text(max_size=30)))
def test_nothing_raises_or_outlasts_its_limit(pool: Pool, line: str) -> None:
    result = tool(pool, wall_s=0.4).run(line)
    assert result.seconds < 0.9
    assert len(result.text) <= 512
    assert result.kind in ("", "syntax", "unsupported", "too_large", "timeout", "memory", "domain", "internal")
    if result.kind == "internal":
        assert result.text in INTERNAL, (line, result)


INTERNAL = {
    f"error: internal: SymPy failed with {name}" for name in ("TypeError", "AttributeError", "IndexError", "KeyError")
}
"""SymPy's own faults, which have no better name."""
