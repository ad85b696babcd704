"""Transcripts: one trajectory as people read it. In comes a decision with its trajectory; out come terminal and HTML.

    run folder → choose (listing) → transcript (facts, blocks) → print_transcript | page

Whatever a model said is shown and never obeyed: see `safe`.
"""

from specvet.vetting.transcript.blocks import Block, Picture, Run, Token, blocks_of
from specvet.vetting.transcript.facts import Transcript, transcript
from specvet.vetting.transcript.page import page
from specvet.vetting.transcript.pictures import Gallery
from specvet.vetting.transcript.terminal import COLOURS, ColourBy, print_transcript

__all__ = [
    "COLOURS",
    "Block",
    "ColourBy",
    "Gallery",
    "Picture",
    "Run",
    "Token",
    "Transcript",
    "blocks_of",
    "page",
    "print_transcript",
    "transcript",
]
