"""Records: what makes a result checkable. In come decisions; out go run folders, receipts and hashes."""

from specvet.records.decision import WHOLE_FILE, Decision
from specvet.records.errors import DiskFullError, DuplicateDecisionError, RunError, RunLockedError, RunMismatchError
from specvet.records.files import ImageStore, write_atomic
from specvet.records.hashing import array_hash, bytes_hash, file_hash, text_hash
from specvet.records.receipt import Receipt, versions
from specvet.records.run import RunFolder
from specvet.records.run_reader import Event

__all__ = [
    "WHOLE_FILE",
    "Decision",
    "DiskFullError",
    "DuplicateDecisionError",
    "Event",
    "ImageStore",
    "Receipt",
    "RunError",
    "RunFolder",
    "RunLockedError",
    "RunMismatchError",
    "array_hash",
    "bytes_hash",
    "file_hash",
    "text_hash",
    "versions",
    "write_atomic",
]
