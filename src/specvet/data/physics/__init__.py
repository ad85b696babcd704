"""Physics problems as data: read, audit, compare, and make them (SIMULATED).

In come files of problems or solved problems (`rows`) and seeds (`making`); out go rows of
`specvet.records.problems.Problem` whose every stored call was made again, whose answers match, and that are near no
other set (`audit`, `near`). Needs the extra `physics`.
"""
