"""Demonstrations made by measuring: a spectrum with a known label comes in, a conversation to imitate goes out."""

from specvet.data.teacher.checking import Fact
from specvet.data.teacher.taught import Taught
from specvet.data.teacher.teaching import Refused, Teacher
from specvet.data.teacher.wholes import terse_wholes
from specvet.data.teacher.words import VoiceName

__all__ = ["Fact", "Refused", "Taught", "Teacher", "VoiceName", "terse_wholes"]
