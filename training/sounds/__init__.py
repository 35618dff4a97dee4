"""A small dual encoder of sounds and sentences, trained on folds of ESC-50.

`train.py` trains it, `encoders.py` has `make` and `make_dev` for `--model`. Start with
`docs/results/real.md`, which has the commands.
"""
