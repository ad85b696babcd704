"""Documents that a model learns to read plots from: SIMULATED spectra drawn as the agent sees them, and what stands in
them, in words. No task is posed and no class is named: whoever learns from them can read, and has judged nothing.
"""

from specvet.data.reading.documents import ReadingDocument, corpus, read_documents

__all__ = ["ReadingDocument", "corpus", "read_documents"]
