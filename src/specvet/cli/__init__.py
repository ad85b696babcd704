"""The command line: thin commands over the rooms above. In come arguments; out come text, files and an exit code.

Importing this room imports no numpy, astropy or pydantic: every command imports what it needs when it runs, so that
`specvet --help` starts at once.
"""
