"""Data to learn from and to be asked about: question files, demonstrations, and a toy set that is simulated here."""
