"""The published sets. In come the repositories of the cold start and of the benchmark, downloaded or as a local copy;
out come demonstrations and questions, cleaned and split, with what was changed and what was left out.

`writing` writes sets in the published layout; `specvet.data.published.coldstart` and `.bench` prepare them.
"""
