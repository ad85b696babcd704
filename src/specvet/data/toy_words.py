"""The words of the toy set, for the vocabulary of the tiny model that learns it.

Of bytes alone a conversation of the toy set is some 1,900 tokens; where its words are tokens it is 750, pictures
included, and a turn is some thirty. That makes it learnt in a minute or two on a CPU.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from specvet.chat import ChatFormat, Image, chat_format
from specvet.chat.tiny import tiny_vocabulary
from specvet.data.toy import STYLE, WAVELENGTH, shown_conversation, simulated, toy_question
from specvet.spectra import Spectrum
from specvet.tools import Observation, ZoomTool


@cache
def toy_texts(format: str) -> tuple[str, ...]:
    """Conversations of the toy set as this chat format writes them, with every word that it has.

    Raises UnknownFormatError.
    """
    plain = chat_format(format, tiny_vocabulary(format))
    return tuple(_text(plain, banded) for banded in (True, False))


def _text(format: ChatFormat, banded: bool) -> str:
    flux, ivar = simulated(np.random.default_rng(0), banded)
    spectrum = Spectrum(WAVELENGTH, flux.astype(np.float64), ivar.astype(np.float64), medium="air")
    spoken = shown_conversation(toy_question("words", 0, banded), ZoomTool(spectrum, style=STYLE), banded, _unseen)
    return format.text(spoken.messages, spoken.tools, generation=False)


def _unseen(observation: Observation) -> Image:
    """A stand-in: the text only says where a picture stands."""
    assert observation.view is not None
    return Image(b"", *observation.view.size, "")
