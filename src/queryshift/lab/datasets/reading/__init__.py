"""How datasets are read, checked and downloaded; `reader.py` is what every dataset's file uses."""
