"""What engines that run a model on this machine share, whatever computes: the thread that takes requests and answers
them (`thread.py`), what they ask for (`jobs.py`), the rows that are being sampled (`lanes.py`), and those that are kept
from turn to turn (`rows.py`). Nothing here needs torch or onnxruntime.
"""
