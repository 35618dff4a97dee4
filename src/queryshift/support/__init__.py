"""What every room needs and none owns: progress bars, name tables, templates, tensor files.

Imports: `errors` only. Start with `tensor_files.py`, the one format everything is stored in.
"""
