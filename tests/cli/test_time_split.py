"""The split of a run's time, as it is told."""

from __future__ import annotations

from specvet.cli.time_split import time_split, time_split_text

USAGE = {"seconds": 9.0, "notes.prefill_s": 5.0, "notes.vision_s": 2.0, "notes.decode_s": 7.25, "notes.read_s": 0.04}


def test_each_second_of_the_engine_counts_once_and_what_nobody_measured_is_left_out() -> None:
    assert time_split(USAGE) == {"read": 0.04, "vision": 2.0, "prefill": 3.0, "decode": 7.25}


def test_the_line_names_all_parts_in_the_order_in_which_data_go_through() -> None:
    assert time_split_text(USAGE) == (
        "Time, summed over what goes on together: reading files 0.0 s, pictures through the model 2.0 s, "
        "prompts 3.0 s, sampling 7.2 s."
    )


def test_a_model_elsewhere_has_no_split() -> None:
    assert time_split_text({"seconds": 9.0, "notes.read_s": 1.0}) == ""
