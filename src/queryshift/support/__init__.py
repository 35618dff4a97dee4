"""Code that all other folders share: progress bars, name tables, tensor files, locks, modes.

Imports: `errors` only. Start with `tensor_files.py`, the format of all stored files; threads and
forks are in `threads.py` and `priority.py`.
"""
