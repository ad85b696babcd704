"""Broken symbols: the clear ones are read back, the others stay or are marked, and whole text is never touched."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specvet.data.mojibake import LOST, UNRESOLVED, Change, Rule, repaired, rules, table

CLEAN = (
    "Hα at 6563 Å is broad: EW −25 ± 3 Å, FWHM ≈ 1,200 km s⁻¹ (3σ).",
    "The “blue hook” of λ4686 – weak, but ≥ 2 × 10⁻¹⁷ erg s⁻¹ cm⁻² Å⁻¹ — isn’t a CV’s.",
    "C₂ Swan bands (λλ5165, 4737) → carbon; T ≤ 4,000 K; μ = 0.3″; 12° ½ …",
    "see 光谱-位置_001.fits and 天文台.fits, 北纬40°, 单位 4686, 未知 1, 卤素 3",
    "Ångström, Schrödinger, naïve, café, Øre, Čech, “déjà vu”",
    "√2 × √ó is not ‘√’; ¬p ∧ q; 10 µm; Ωm",
    "H? 6563 ?, (H?) 4861 - was it?",
    "He II 4686, [O III] 5007, Ca II H&K, a <tool_call> in words, x_1 | y",
)


@pytest.mark.parametrize("text", CLEAN[:5] + CLEAN[6:])
def test_whole_text_is_never_touched(text: str) -> None:
    assert repaired(text).text == text
    assert repaired(text).changes == ()


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(" ".join(CLEAN[:5] + CLEAN[6:]).split()), max_size=30))
def test_words_of_whole_texts_stay_in_any_order(words: list[str]) -> None:
    text = " ".join(words)
    assert repaired(text).text == text


@pytest.mark.parametrize("codec", ["cp1252", "latin-1", "mac_roman"])
@pytest.mark.parametrize("symbol", "αβγδλμσΔÅ×±−–≈≥≤→°“’…·²₂")
def test_a_symbol_read_in_a_wrong_encoding_is_read_back(symbol: str, codec: str) -> None:
    broken = symbol.encode().decode(codec)
    done = repaired(f"a {broken} b")
    assert done.text == f"a {symbol} b"
    assert done.changes == (Change(2, broken, symbol, done.changes[0].rule),)
    assert done.changes[0].rule in (codec, "cp1252")  # from A0 on, Latin-1 and Windows-1252 are one


@pytest.mark.parametrize(
    ("broken", "meant"),
    [
        ("HÃŽÂ± at 6563 Ãƒâ€¦", "Hα at 6563 Å"),  # twice
        ("Î»Î»4959", "λλ4959"),
        ("Ã\x85, Î\x94", "Å, Δ"),  # Latin-1 keeps control characters
        ("300 km sâ�»Â¹", "300 km s⁻¹"),
        ("itâ€™s, isn鈥檛", "it’s, isn’t"),
        ("2 âˆ¼ 3 â‰ˆ 4 âˆ’ 5", "2 ∼ 3 ≈ 4 − 5"),
        ("√Ö ¬± √ó ‚âà Œ±", "Å ± × ≈ α"),
    ],
)
def test_known_damage_is_read_back(broken: str, meant: str) -> None:
    assert repaired(broken).text == meant


@pytest.mark.parametrize("rule", rules(), ids=[rule.name for rule in rules()])
def test_each_rule_reads_its_example_and_leaves_its_counter_example(rule: Rule) -> None:
    before, after = rule.example
    done = repaired(before)
    assert done.text == after
    assert [change.rule for change in done.changes] == [rule.name]
    assert repaired(rule.stays).text == rule.stays


@pytest.mark.parametrize(
    "text",
    [
        "H� and H� are weak",
        "H� 4861/6563",
        "H� (4861–6563 Å)",
        "H� at 4861, 6563",
        "5� above, 6563 � 2 Å, T � 10,000 K",
        "near 6563 � consistent with a CV",
        "the caf�s of 2�3",
    ],
)
def test_what_could_be_meant_otherwise_keeps_its_mark(text: str) -> None:
    done = repaired(text)
    assert done.text == text
    assert done.unresolved == text.count(LOST)


@pytest.mark.parametrize(
    ("text", "marked"),
    [("a\x81b", "a�b"), ("Î\x8d x", "� x"), ("a\ue0f0b", "a�b"), ("a\ud800b", "a�b"), ("nul\x00", "nul�")],
)
def test_what_no_text_can_mean_is_marked(text: str, marked: str) -> None:
    done = repaired(text)
    assert (done.text, done.unresolved) == (marked, 1)
    assert done.changes[0].rule == UNRESOLVED


def test_changes_say_where_in_the_text_as_it_was_given() -> None:
    text = "Ã… and HÎ±, then H� (4861 Ã…) and �"
    done = repaired(text)
    assert done.text == "Å and Hα, then Hβ (4861 Å) and �"
    assert done.unresolved == 1
    again = text
    for change in reversed(done.changes):
        assert text[change.offset :].startswith(change.before)
        again = again[: change.offset] + change.after + again[change.offset + len(change.before) :]
    assert again == done.text


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.sampled_from([*"HÎÏÃÂâ€�±… 65631–()Åα\x81\x9d伪位", "6563", "�", "â€", "Ã…", "ÃŽÂ±", "H�"]), max_size=14
    )
)
def test_a_repaired_text_is_whole(pieces: list[str]) -> None:
    once = repaired("".join(pieces))
    assert repaired(once.text).text == once.text
    assert repaired(once.text).changes == ()


def test_no_entry_of_the_table_is_an_english_or_a_plain_greek_word() -> None:
    assert len(table()) > 500
    assert all(not broken.isascii() and len(broken) >= 2 for broken in table())
    greek = "αβγδεζηθικλμνξπρςστυφχψω"
    assert not [broken for broken in table() if all(letter in greek for letter in broken)]
