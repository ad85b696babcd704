"""The form of what the server sends to its owner."""

MESSAGE = b"%b%15d"
"""Kind (`w` a worker, `s` a wait status) and number."""
MESSAGE_LENGTH = 16
