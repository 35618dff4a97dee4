"""A small dual encoder of photographs and captions, trained on Flickr8k's clean pictures.

`shrink.py` makes small pictures, `train.py` trains on them, `encoders.py` has `make` for `--model`.
Start with `docs/results/photographs.md`, which has the commands.
"""
