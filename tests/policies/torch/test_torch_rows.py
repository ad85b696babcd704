"""Which row is found for a ledger, and which rows are given away."""

from __future__ import annotations

import torch
from torch_lab import FAMILIES

from specvet.chat import Ledger, TextSegment
from specvet.policies.serving.rows import Rows

assert FAMILIES


def ledger_of(*segments: tuple[int, ...]) -> Ledger:
    """Text segments; a negative first number makes a sampled one of the rest."""
    ledger = Ledger("f", "v")
    for ids in segments:
        if ids[0] < 0:
            ledger.append_sampled(ids[1:], None, "end")
        else:
            ledger.append([TextSegment(ids, "user")])
    return ledger


def holding(rows: Rows, ledger: Ledger, filled: int, *, busy: bool = False) -> int:
    (row,) = rows.free(1, []) or []
    rows.hold(row, ledger, filled, busy=busy)
    return row.slot


RULES, QUESTION, SAID, SEEN = (1, 2, 3), (4, 5), (-1, 6, 7, 8), (9, 10)


def test_the_longest_prefix_is_found_and_a_parked_row_that_ends_there_goes_on_itself() -> None:
    rows = Rows(9, recurrent=False)
    rules = holding(rows, ledger_of(RULES), 3)
    turn = holding(rows, ledger_of(RULES, QUESTION, SAID), 7)
    found = rows.find(ledger_of(RULES, QUESTION, SAID, SEEN))
    assert (found.row and found.row.slot, found.length, found.taken_over) == (turn, 7, True)
    found = rows.find(ledger_of(RULES, (8, 8)))
    assert (found.row and found.row.slot, found.length, found.taken_over) == (rules, 3, True)
    found = rows.find(ledger_of(RULES, QUESTION))  # whose last token must be read for its logits
    assert (found.row and found.row.slot, found.length, found.taken_over) == (turn, 4, False)
    assert rows.find(ledger_of((8, 8))).row is None
    assert rows.find(Ledger("f", "other")).row is None


def test_a_busy_row_is_copied_from_and_never_taken_over() -> None:
    rows = Rows(9, recurrent=False)
    holding(rows, ledger_of(RULES, QUESTION), 5, busy=True)
    found = rows.find(ledger_of(RULES, QUESTION, SEEN))
    assert (found.length, found.taken_over) == (5, False)
    recurrent = Rows(9, recurrent=True)
    holding(recurrent, ledger_of(RULES, QUESTION), 5, busy=True)
    assert recurrent.find(ledger_of(RULES, QUESTION, SEEN)).row is None  # its state has gone on


def test_a_recurrent_prefix_needs_its_state_and_a_row_that_has_seen_all_of_it() -> None:
    rows = Rows(9, recurrent=True)
    whole = ledger_of(RULES, QUESTION, SAID)
    short = holding(rows, whole, 7)  # the last sampled token was not seen
    other = ledger_of(RULES, QUESTION, SAID, SEEN)
    long = holding(rows, ledger_of(RULES, QUESTION, SAID, (11, 12)), 10)
    state = {0: (torch.ones(1), torch.ones(1))}
    assert rows.find(ledger_of(RULES, (8, 8))).row is None
    rows.keep_state(ledger_of(RULES).digest, state)
    found = rows.find(ledger_of(RULES, (8, 8)))
    assert (found.length, found.state is state) == (3, True)
    rows.keep_state(whole.digest, state)
    first = rows.at(short)
    assert first is not None
    first.busy = True
    found = rows.find(other)
    assert (found.row and found.row.slot, found.length, found.state is state) == (long, 8, True)


def test_rows_are_given_away_lowest_first_unused_then_over_then_old_and_never_those_needed() -> None:
    rows = Rows(4, recurrent=False)
    ledgers = [ledger_of((i, i)) for i in range(1, 5)]
    assert [holding(rows, x, 2) for x in ledgers] == [0, 1, 2, 3]
    rows.release(ledgers[2])
    one = rows.at(0)
    assert one is not None
    assert rows.free(5, []) is None
    assert rows.free(4, [one]) is None
    given = rows.free(2, [one])
    assert given is not None
    assert [row.slot for row in given] == [1, 2]
    assert rows.find(ledger_of((3, 3), (9,))).row is None
    assert rows.find(ledger_of((4, 4), (9,))).row is not None


def test_exchanged_rows_are_found_where_they_went() -> None:
    rows = Rows(4, recurrent=False)
    for i in (1, 2):
        holding(rows, ledger_of((i, i)), 2)
    rows.exchange(0, 1)
    found = rows.find(ledger_of((1, 1), (9,)))
    assert found.row is not None
    assert found.row.slot == 1
    assert rows.at(1) is found.row
