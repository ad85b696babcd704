"""Spectra by their ids, from the surveys' archives into a folder; in come ids and lists, out goes a list with files.

    asks = sdss.from_text("2108-53473-0415"), …
    with closing(Folder("spectra")) as folder:
        outcome = get(asks, folder, address("sdss"))

`asks` holds what is wanted, `sdss`, `desi` and `lamost` turn ids into addresses, `lists` reads lists of ids, `line`
fetches, `checking` compares what came with what was asked for, `folder` remembers, `running` and `sparcl` do it all.
"""

from __future__ import annotations

from specvet.catalogue.getting.asks import Ask, AskError, Asks, gathered
from specvet.catalogue.getting.folder import Folder, Got
from specvet.catalogue.getting.running import Outcome, get
from specvet.catalogue.getting.services import address

__all__ = ["Ask", "AskError", "Asks", "Folder", "Got", "Outcome", "address", "gathered", "get"]
