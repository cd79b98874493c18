"""The paper's figures, and ours beside peers: `python -m reproduction FIGURE`.

From the top down: `__main__` (the command), `runner` and `workers` (trials in parallel,
kept as they are finished), `figures` (which trials there are and what is made of them),
`trials` (what runs one), `tasks` and `baselines` (from which data, beside whom), and
`pictures`.
"""
