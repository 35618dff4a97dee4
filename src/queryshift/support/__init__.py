"""What every room needs and none owns: progress bars, name tables, tensor files, locks, modes.

Imports: `errors` only. Start with `tensor_files.py`, the one format everything is stored in;
threads and forks are in `threads.py` and `priority.py`.
"""
