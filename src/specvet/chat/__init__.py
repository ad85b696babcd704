"""Chat: messages ↔ tokens, exactly once. In come messages and sampled ids; out come ledgers, parsed turns and datums.

Imports neither torch nor pydantic, so that it works in training images that have little else than torch.
"""

from specvet.chat.datum import IGNORED, Datum, rl_datum, sft_datum
from specvet.chat.format import (
    AnswerTurn,
    CallTurn,
    ChatFormat,
    Conversation,
    MalformedTurn,
    ParsedTurn,
    TruncatedTurn,
)
from specvet.chat.formats import UnknownFormatError, chat_format, format_for_model_type, ledger_of
from specvet.chat.images import GEOMETRIES, ImageGeometry
from specvet.chat.ledger import (
    ImageSegment,
    Ledger,
    LedgerError,
    SampledSegment,
    Segment,
    Stop,
    TextSegment,
    WordsSegment,
)
from specvet.chat.messages import Image, ImageError, Message, ToolCall
from specvet.chat.vocabulary import Vocabulary, VocabularyError, harmless

__all__ = [
    "GEOMETRIES",
    "IGNORED",
    "AnswerTurn",
    "CallTurn",
    "ChatFormat",
    "Conversation",
    "Datum",
    "Image",
    "ImageError",
    "ImageGeometry",
    "ImageSegment",
    "Ledger",
    "LedgerError",
    "MalformedTurn",
    "Message",
    "ParsedTurn",
    "SampledSegment",
    "Segment",
    "Stop",
    "TextSegment",
    "ToolCall",
    "TruncatedTurn",
    "UnknownFormatError",
    "Vocabulary",
    "VocabularyError",
    "WordsSegment",
    "chat_format",
    "format_for_model_type",
    "harmless",
    "ledger_of",
    "rl_datum",
    "sft_datum",
]
